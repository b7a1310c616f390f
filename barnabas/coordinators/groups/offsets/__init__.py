"""Committed offsets: commit, fetch, delete, and retention.

operations: one function per request; called by the shard
store: the offsets of one group
pending: offsets of open transactions
transactional: commits of offsets in a transaction (TxnOffsetCommit)
retention: deletes offsets past their retention, and empty groups
refusals: why a commit was refused, and what to do
"""
