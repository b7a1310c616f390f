"""Log compaction: the last record of each key stays.

- cleanable: which log is compacted next, and why
- job: what a compaction is asked for, and its file names
- compaction: writes the new segments
- key_loops: the map from keys to offsets (compiled)
- segment_swap: puts the new segments in the place of the old ones
"""
