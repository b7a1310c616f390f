"""One partition's records on disk, in Kafka's own layout; pure but for the disk port.

`directory.py` opens a log directory, `log.py` is one partition's log. Nothing here
reads a clock, starts a thread or opens a socket: time and the disk are handed in.
"""
