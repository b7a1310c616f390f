"""Parts of `barnabas txn`.

arguments: transactional ids as arguments
abort: end a transaction
"""
