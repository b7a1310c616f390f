"""A topic as a table of files.

lake: batches of a query, written to a table
parquet: a table of Parquet files, a directory per batch
delta_table: Delta tables, with every record or the latest record of each key
delta: the log of a Delta table
files: Parquet files, written and read by Spark
"""
