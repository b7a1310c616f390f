"""Log compaction: the last record of each key stays.

- cleanable: which log is compacted next, and why
- job: what a compaction is asked for, and its file names
- compaction: writes the new segments
- segment_writer: the log file of a new segment, and batches that are changed
- transaction_scan: which batches are aborted, and which markers are still needed
- key_loops: the map from keys to offsets (compiled)
- segment_swap: puts the new segments in the place of the old ones
"""
