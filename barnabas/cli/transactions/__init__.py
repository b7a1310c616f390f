"""Parts of `barnabas txn`.

arguments: transactional ids as arguments
abort: end a transaction
text: transactions as text, rows and documents
"""
