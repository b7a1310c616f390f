"""The producer: from a record to an acknowledged batch. IO is done by producing.py, transacting.py
and coordinator_requests.py only.

record: a record to send
intake: checks records and hands them to the accumulator
accumulator: chooses the partition, and collects records into batches, a queue per partition
batches: batches on their way, and the results of their records
sealing: the bytes that a batch is sent as; splits a batch that is too large
sequences: producer id and sequence numbers (idempotence)
outbox: which batches leave (linger.ms, backoff, in-flight), and what their responses mean
batch_results: what follows the end of a batch: written, given up, or split
metadata_refresh: when to request metadata, and when to give up an unknown topic (the cache:
    client/cluster.py)
produce_errors: what the error codes of a Produce response mean for a batch
transactions: which requests a transaction needs, and which batches may leave
transaction_states: the states of a transactional producer, and the legal transitions
transaction_errors: what an error code means for a transaction: retry, abort, give up
transaction_requests: requests of a transaction that list partitions
transacting: the calls of a transaction, step by step
coordinator_requests: asks coordinators, and repeats
settings: the options of a producer
producing: what both drivers share: serializing, Produce requests and responses
"""
