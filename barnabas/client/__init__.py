"""The client: sans-IO cores, and a blocking driver over them for scripts and the command line.

Cores: session (one connection), metadata (who leads what), partitioner, accumulator (records
to batches), positions (batches to records). Drivers: connection, cluster, admin, producer,
consumer.
"""
