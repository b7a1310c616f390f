"""What happens after a crash: whole batches are kept, the torn end is truncated.

- log_recovery: opens one log
- segment_recovery: checks one segment, batch by batch
- swap_recovery: finishes swaps of compacted segments
- findings: what was found and done, for people to read
- inspection: looks into the files of a stopped broker (`barnabas log verify`)
"""
