"""Workers: run a function on the records of a topic, in one of four threading models.

Pure: window (many records in flight), share (one partition of a window), outbox (records that move
to the retry or dead-letter topic), letters (their headers), prefix (ranges of a partition).
Drivers: parallel (the sliding window), per_thread, per_batch, per_range. When to use which:
docs/WORKERS.md.
"""
