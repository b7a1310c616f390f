"""The producer: from a record to an acknowledged batch. All but producing.py is without IO.

intake: checks records and hands them to the accumulator
accumulator: chooses the partition, and collects records into batches, a queue per partition
batches: batches on their way, and the results of their records
sealing: the bytes that a batch is sent as; splits a batch that is too large
sequences: producer id and sequence numbers (idempotence)
outbox: which batches leave (linger.ms, backoff, in-flight), and what their responses mean
metadata_refresh: when to request metadata, and when to give up an unknown topic (the cache:
    client/cluster.py)
settings: the options of a producer
producing: what both drivers share: serializing, Produce requests and responses
"""
