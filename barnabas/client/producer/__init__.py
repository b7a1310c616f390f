"""The producer: from a record to an acknowledged batch. All but producing.py is without IO.

intake: records come in: checked, serialized, partitioned
accumulator: collects records into batches, a queue per partition
batches: batches on their way, and the results of their records
sealing: the bytes that a batch is sent as; splits a batch that is too large
sequences: producer id and sequence numbers (idempotence)
outbox: which batches leave, in which request, and what their responses mean
metadata_cache: what the producer knows of its topics
settings: the options of a producer
producing: what both drivers share: requests out, responses in
"""
