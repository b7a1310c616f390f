"""Transactions in a world: producers, consume-transform-produce groups, readers, and the checker.

plan: what a seed chooses
history: what clients did and were told, and what the logs decided
clients: the real client library, in transactions
guards: the coordinators and the last stable offsets of brokers, after each of their turns
settling: what must hold after healing
"""
