"""One partition's records on disk, in Kafka's own layout; pure but for the disk port.

`log.py` is one partition's log: its state and its methods. Longer operations are functions over a
Log: `append.py`, `replica_append.py`, `roll.py`, `truncation.py`, `segment_deletion.py`. A log
directory is `directory.py`; `directory_open.py` and `recovery.py` open it. Nothing here reads a
clock, starts a thread or opens a socket: time and the disk are parameters.
"""
