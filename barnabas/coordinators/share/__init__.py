"""Share groups (KIP-932): the stored state of share partitions, and their records in flight.

keys: names of share partitions, and which partition of __share_group_state keeps one
records: keys and values in __share_group_state, as Kafka's
state_batches: merges ranges of delivery states as Kafka does
stored_state: the state of one share partition, as the log has it
state_shard: the state of all share partitions in one partition of __share_group_state
runs: a sorted list of runs of offsets, split and merged
share_partition: which records of one partition a group has in flight; the decisions of its leader
acquiring: which records a fetch gets
acknowledge_ranges: checks the form of acknowledgements in a request; ranges with one type each
share_view: a share partition as people look at it
delivery_causes: counts and last causes of releases, expiries and rejections
sessions: the share sessions of members
"""
