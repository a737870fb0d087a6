"""Rebuild missing or wrong indexes from the log.

options  what can be chosen
plan     which index files a plan replaces, and the new bytes of each
plot     the picture of index health
"""
