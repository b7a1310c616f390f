"""Share groups on a broker: the share coordinator, and the partitions that this broker leads.

A broker without share groups never imports any of it.

service: what share groups need of a broker, created when first used
coordination: carries out what the share coordinator decides: logs, timers
state_messages: requests for share state, and the answers of the coordinator
states: reads and writes share state, wherever its coordinator is
partitions: the share partitions that are loaded here, and the fetches that wait for them
batch_spans: the batches of a read, as the decisions about it need them
fetching: answers the fetches of members
acknowledgements: answers the acknowledgements of members
metrics: share groups for Prometheus
dead_letters: writes records that no member accepted to a dead-letter topic
"""
