"""Transactions in one partition's log.

- append: which transactional batches and markers are accepted, and what they change
- verification: guards of batches that wait for the coordinator's word
- open_transactions: which transactions are open, and the last stable offset
- aborted_index: aborted transactions as files, in Kafka's format
"""
