"""Transactions as an administrator sees them: which are open, and which readers wait behind them.

report: what brokers report about transactions, and a report of one moment
reporting: collects a report from several brokers
transaction_rules: what will end a transaction; findings about a report
text: transactions as text, rows and documents
"""
