"""Migrate stored messages between formats (magic 0, 1, 2), broker by broker.

options      what can be chosen
phases       the order of KIP-31 and KIP-32: phase 1, canary, phase 2, rollback
state        how far each broker is, from its ledger
ledger       the file that records each step
plan         which segments a plan converts, and their new bytes
stage        the conversion of what is planned, and its proof
census       bytes and batches per format
certify      statements that a log directory holds no batch below or above a magic
certificate  the folder of such a statement
recheck      whether such a statement is still true
forecast     sizes and losses
"""
