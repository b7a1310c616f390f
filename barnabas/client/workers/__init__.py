"""Workers: run a function on the records of a topic, in one of four threading models.

Pure: window/ (many records in flight), dead_letter_headers (of retries and dead letters), policy
(what follows a failure), prefix (ranges of a partition), redrive_ledger (which dead letters were
redriven), share_calls (records of a share group).
Drivers: parallel and its runners (runner: the sliding window; share_runner: a share group),
per_thread, per_batch, per_range. When to use which: docs/WORKERS.md.
"""
