"""Workers: run a function on the records of a topic, in one of four threading models.

Pure: window/ (many records in flight), dead_letter_headers (of retries and dead letters), policy
(what follows a failure), prefix (ranges of a partition), redrive_ledger (which dead letters were
redriven).
Drivers: parallel and its runner (the sliding window), per_thread, per_batch, per_range. When to use
which: docs/WORKERS.md.
"""
