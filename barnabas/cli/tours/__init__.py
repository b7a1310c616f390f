"""The chapters of `barnabas tour`.

tour: the command
stage: what a chapter says, runs and checks
members: consumers on threads, for the chapters
old_consumers: consumers without a coordinator, for the chapters
basics: files of a log, keys, unicast and broadcast
group_chapters: joins and leaves, states, a poll that is late, ZooKeeper's consumer
cluster_chapters: coordinator and controller killed, the high watermark, unclean election, roles
worker_models: three of the four ways to process
processing: compaction, the four ways to process, delivery guarantees, pipelines
"""
