"""A broker as a member of a cluster; a lone broker loads none of it.

membership: its keeper session, id and epoch, and the other brokers
registration: how a broker gets its id, and is the only one that has it
keeper_calls: calls to the keeper, one at a time in a thread, through the session that is open
catalog: topics and configuration, when the controller decides
metadata: topics and partitions as the controller's UpdateMetadata describes them
settings: configuration stored in the keeper, as this broker knows it
settings_propagation: waits until changed configuration is in force on every live broker
peers: requests to other brokers
forwarding: requests that only the controller answers
metrics: controller and replication for Prometheus
"""
