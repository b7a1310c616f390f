"""One segment after the other: the files of a log, their indexes, and when they are deleted.

- segment: a file of batches and its two indexes
- segment_truncation: removes the batches at the end of a segment
- index, index_builder, index_check: offset to position and timestamp to offset; rebuilt and checked
- time_lookup: finds records by timestamp
- scan: walks the batches of a file
- retention, deletion: which segments are too old or too many, and how they are deleted
- file_deletion: files that wait for file.delete.delay.ms
- open_segments: bounds how many segments hold open files
"""
