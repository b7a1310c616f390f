"""What the handlers of several APIs share.

authorized_operations: the operations that responses list as allowed
config_resources: which resource a request names, and changes of its configuration
fetch_wait: a fetch that waits for bytes, or for its data to be read from disk
lone_replicas: elections and reassignments on a broker without a cluster
placement: whether partitions and replicas can be placed as requested
read_replica: which broker a consumer should fetch from instead: the leader or a near replica
recompression: produce requests to topics with another compression.type
"""
