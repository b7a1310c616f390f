"""The transaction coordinator of a broker, and the markers that it sends and writes.

A broker without transactions never imports any of it.

coordination: carries out what the coordinator decides: logs, timers, markers
state_topic: creates __transaction_state
local_markers: writes markers into this broker's partitions, without a request to itself
marker_writing: answers requests for markers in the partitions that this broker leads
marker_append: appends one marker to a partition
produce: appends the batches of transactional producers
verification: asks the coordinator whether partitions are in a transaction
abort_log: logs the transactions that the coordinator aborted, with the cause
metrics: transactions for Prometheus
producer_id_pool: producer ids in stock, so that no decision waits for the keeper
"""
