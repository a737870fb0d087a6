"""Migrate stored messages between formats (magic 0, 1, 2), broker by broker.

phases       the order of KIP-31 and KIP-32: phase 1, canary, phase 2, rollback
state        how far each broker is, from its ledger
ledger       the file that records each step
plan         which segments a plan converts, and their new bytes
stage        the conversion of what is planned, and its proof
census       bytes and batches per format
certify      statements that a log directory holds no batch below a magic
recheck      whether such a statement is still true
forecast     how many bytes a migration adds or saves
"""
