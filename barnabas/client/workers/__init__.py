"""The four ways to use threads: what runs a function on the records of a topic.

Pure: window (many records in flight), share (one partition of it), outbox (records that leave for
the retry or dead-letter topic), letters (their headers), prefix (ranges of a partition).
Drivers: parallel (the sliding window), per_thread, per_batch, per_range. When to use which:
docs/WORKERS.md.
"""
