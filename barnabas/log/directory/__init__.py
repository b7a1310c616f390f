"""A log directory: the logs in it, and its checkpoint files.

- directory: the logs, created, deleted, moved
- opening, creation: opens all logs at a start; creates one
- checkpoints, checkpoint_files: Kafka's small text files, and their state
- claim: which broker and cluster own the directory
"""
