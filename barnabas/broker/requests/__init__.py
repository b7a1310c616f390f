"""What the handlers of several APIs share.

authorized_operations: the operations that responses list as allowed
config_resources: which resource a request names, and changes of its configuration
delayed_fetch: long polls: fetches that wait for bytes, or for the disk
delayed_produce: produce requests that wait until their records are committed
described_groups: describes groups of one kind
lone_replicas: elections and reassignments on a broker without a cluster
placement: whether partitions and replicas can be placed as requested
produce_errors: the results for partitions whose records were not accepted
read_replica: which broker a consumer should fetch from instead: the leader or a near replica
recompression: produce requests to topics with another compression.type
"""
