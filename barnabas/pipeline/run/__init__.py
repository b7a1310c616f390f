"""Runs pipelines: from a spec to a Spark session, its queries, and their end.

spec: what a pipeline is
spec_source: what a spec says about its source, for the reader of that source
transform: finds the user's function that a spec names
section: reads one mapping of a spec, and says what is wrong with it
plan: what a pipeline would do
session: a Spark session that starts quietly
running: runs a pipeline on Spark
queries: watches the queries: what each batch did, which one failed
rows: rows for functions and tables; bad rows
dead_letters: writes bad rows to the retry and dead-letter topics
progress: batches, rows, time and lag of each query
metrics: the same for Prometheus
roster: which pipelines run on this machine
stopping: a request to stop
submit: a pipeline by spark-submit
submitted: what spark-submit runs
standalone: a Spark cluster on this machine
package: this package as an archive for Spark's executors
jvm_noise: keeps the JVM's own output off the terminal
demo: what `barnabas demo` runs
"""
