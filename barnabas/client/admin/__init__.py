"""Administration of a cluster. Groups are in client/groups/.

admin: topics, partitions, records, offsets
cluster: brokers, replicas, reassignments, elections
clients: connected clients
configs: configuration of topics and brokers
security: ACLs and quotas
users: users of SCRAM and their passwords
transactions: list, describe and end transactions
"""
