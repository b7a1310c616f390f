"""Kafka's features (KIP-584): the levels that this broker supports, the highest of them in force.

Tools determine a cluster's version by metadata.version, and whether it has the new group protocol
by group.version; producers whether they use the second transaction protocol (KIP-890) by
transaction.version; consumers whether there are share groups by share.version; Kafka Streams
whether there are streams groups by streams.version. The bounds are those of Kafka 4.3.
"""

TRANSACTION_VERSION = 2
SHARE_VERSION = 1
STREAMS_VERSION = 1

FEATURES = {
    "group.version": (0, 1),
    "metadata.version": (7, 30),
    "share.version": (0, SHARE_VERSION),
    "streams.version": (0, STREAMS_VERSION),
    "transaction.version": (0, TRANSACTION_VERSION),
}
