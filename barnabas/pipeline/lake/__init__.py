"""A topic as a table of files.

lake: batches of a query, written to a table
batch_commit: the steps of adding a batch, which all tables share
parquet: a table of Parquet files, a directory per batch
iceberg_table: Iceberg tables, with every record or the latest record of each key
iceberg, iceberg_catalog: the snapshots of an Iceberg table; catalogs and columns
iceberg_spec: the parts of a spec that only Iceberg has
delta_table: Delta tables, with every record or the latest record of each key
delta: the log of a Delta table
latest: the latest row of each key
data_files: Parquet files on any store, written and read by tasks
file_writer: the files of one task
store: a directory, or a prefix of a bucket
files: Parquet files, written by Spark
backfill: records of a range of time, added once
upkeep: small files joined, snapshots expired, orphans deleted
union: a table and its topics read as one
sql_worker: the same as a table of `barnabas sql`
snapshot, pruning, log_rows: the parts of that: a table at a moment, filters, records as rows
remote_checkpoint, conditional_put: checkpoints on S3, and stores that let one writer win
"""
