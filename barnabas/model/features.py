"""Kafka's features (KIP-584): the levels that this broker supports, the highest of them in force.

Tools determine a cluster's version by metadata.version, and whether it has the new group protocol
by group.version; producers whether they use the second transaction protocol (KIP-890) by
transaction.version. The bounds are those of Kafka 4.3.
"""

TRANSACTION_VERSION = 2

FEATURES = {
    "group.version": (0, 1),
    "metadata.version": (7, 30),
    "transaction.version": (0, TRANSACTION_VERSION),
}
