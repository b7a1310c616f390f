"""Spark: `format("barnabas")` as source and sink.

datasource: the class that Spark finds by itself
source: the readers that Spark calls
sink: the writers that Spark calls
options: the options of source and sink, parsed
pushdown: filters on topic, partition, offset and timestamp that reduce what is read
offsets: offsets as JSON, in ranges, divided between triggers and tasks
brokers: what a query asks of the brokers
reading: reads a range of offsets as Arrow batches
fetching: fetches the record batches of a range
segments: reads them from a local broker's segment files instead
writing: Spark's rows into records and batches
sending: sends batches that are built already
listener: queries of Spark's own `format("kafka")` as consumer groups
checkpoint: what a checkpoint says about its query
worker_start: makes Spark's Python workers start sooner
"""
