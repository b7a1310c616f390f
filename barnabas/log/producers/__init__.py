"""Producer state of a log: sequences and epochs, so that each batch is written once.

- state: whether a batch is new, a repeat, or out of order
- replay: restores the state after a restart
- snapshots: the state as files, in Kafka's format
- refused: batches that must come again before later ones are appended
"""
