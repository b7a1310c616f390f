"""Share groups in a world: members, what they did and were told, and what the brokers stored.

plan: what a seed chooses
clients: the real client library in share groups
stored: __share_group_state as a model of every offset
ledger: what members asked for and were told, compared with what is stored
guards: share partitions of leaders, and share coordinators, after each turn
settling: who takes part, and what must hold after healing
"""
