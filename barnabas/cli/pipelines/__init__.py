"""`barnabas lake`, and parts of `barnabas pipeline` and `barnabas demo`.

roster: `pipeline ls`, `status` and `stop`
spark_cluster: `pipeline cluster up`
explain: `pipeline explain`
alerts: `pipeline alerts`
lake: `lake maintain`
serving: `pipeline serve` and `backfill`
terminal: the progress of a run on a terminal
errors: how commands of pipelines fail: lines on stderr, and an exit code
demo: the pipelines of `barnabas demo`
drawing: lines that are drawn again on a terminal
demo_counts: counts what a demo has stored
"""
