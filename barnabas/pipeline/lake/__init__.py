"""A topic as a table of files.

lake: Parquet, Delta, and the latest record of each key
delta: the log of a Delta table
"""
