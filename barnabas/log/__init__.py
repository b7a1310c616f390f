"""One partition's records on disk, in Kafka's own layout; pure except for the disk port.

Here: one partition's log (`log.py`) and the operations on it (append, replica_append, roll,
truncation, reader, visible_end). In folders: segments/ (files, indexes, retention), producers/
(sequences and their snapshots), transactions/ (open and aborted ones), recovery/ (after a crash),
compaction/, directory/ (a log directory and its checkpoints). Nothing here reads a clock, starts a
thread or opens a socket: time and the disk are parameters.
"""
