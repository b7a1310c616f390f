"""The broker's logs on disk: log directories, moves between them, cleaner, housekeeping.

storage: all logs: in which log directory each is, and what happens when a disk fails
log_directory: one log directory in use, and the thread that waits for its disk
partition_opening: opens the partitions of a topic on a lone broker
moves: moves logs between log directories while they are in use
housekeeping: syncs, checkpoints, retention, idle connections, deleted files
cleaner: chooses the dirtiest log and puts its compacted segments in place
cleaner_process: starts and stops the process that compacts
cleaner_protocol: what the broker and that process say to each other
cleaner_worker: the process that compacts
"""
