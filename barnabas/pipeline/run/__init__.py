"""Runs pipelines: from a spec to a Spark session, its queries, and their end.

spec: a pipeline's spec, checked
spec_source: the source section of a spec, for the reader of that source
transform: finds the user's function that a spec names
section: reads one mapping of a spec, and reports its mistakes
plan: the plan of a pipeline, for a dry run
session: a Spark session that starts quietly
running: runs a pipeline on Spark
queries: watches the queries, their batches and failures
topic_sink: the topic that a stream writes to, exactly once or at least once
rows: rows for functions and tables; bad rows
dead_letters: writes bad rows to the retry and dead-letter topics
bad_row_producer: the producer of bad rows, a transaction per batch
dead_letter_topics: creates the topics of bad rows
outage: decides whether a pipeline waits for brokers that are away
progress: batches, rows, time and lag of each query
explain: decides whether somebody should look at a pipeline, and why it is behind
metrics: progress for Prometheus
roster: the pipelines that run on this machine
stopping: a request to stop
submit: runs a pipeline with spark-submit
submitted: the program that spark-submit runs
standalone: a Spark cluster on this machine
package: this package as an archive for Spark's executors
jvm_noise: keeps the JVM's own output off the terminal
demo: the pipelines of `barnabas demo`
"""
