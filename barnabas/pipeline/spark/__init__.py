"""Spark: `format("barnabas")` as source and sink.

datasource: the class that Spark finds by itself
source: the readers that Spark calls
sink: the writers that Spark calls
options: the options of source and sink, parsed
pushdown: filters on topic, partition, offset and timestamp that reduce what is read
offsets: offsets as JSON, in ranges, divided between triggers and tasks
brokers: partitions, offsets and commits of a query
reading: reads a range of offsets as Arrow batches
fetching: fetches the record batches of a range
segments: reads them from a local broker's segment files instead
writing: converts Spark's rows to records and batches
sending: sends complete batches
once_sink: what an exactly-once sink does in tasks and on the driver
group_committer: exactly once on Barnabas: transactions of tasks, committed as a group
batch_transaction: exactly once on Apache Kafka: one transaction for all tasks of a batch
transaction_calls: requests to transaction coordinators
planned_batch: the identity of a batch of any query, from its checkpoint
placing: gives each target partition to one task
listener: queries of Spark's own `format("kafka")` as consumer groups
checkpoint: our own file in a checkpoint, and the identity of its batches
batch_identity: which records a batch stands for, and which of them a sink has
files: directories, and one rule for their names
worker_start: makes Spark's Python workers start faster
"""
