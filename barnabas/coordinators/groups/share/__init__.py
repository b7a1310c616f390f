"""Share groups (KIP-932): membership, assignments, and which partitions have share state.

Several members may have the same partition; nothing is revoked. A member takes its target at its
next heartbeat. Partitions are assigned once the share coordinator has initialized their
state.
"""
