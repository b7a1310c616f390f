"""The consumer: fetching, positions, commits, messages; membership/: the consumer as a member of a
group.

consumer: reads topics as a member of a group
partition_consumer: reads given partitions, without a group
message_stream: what both consumers do: return messages, and commit them
one_poll: only one task or thread at a time polls
message: `Message[K, V]`, a record and where it was found
message_loops: creates the messages of a batch
deserializing: keys and values of messages, and the interceptors that see them
callbacks: calls functions of the user
reader: reads partitions: finds offsets, fetches ahead, returns messages
fetching: what to fetch from which broker, and what the responses mean
fetch_session: an incremental fetch session with one broker (KIP-227)
decoding: takes one partition's part of a fetch response apart
positions: the position in each partition, and what has been fetched ahead
seeking: moves positions, pauses and resumes partitions
offset_lookup: offsets by time, and as a group committed them
commits: commits a group's offsets
subscription: topics by name, or all that match a pattern
json_lines: messages as JSON lines, and back
arrow: record batches into Arrow's record batches
zookeeper_consumer: reads topics as Kafka's first consumers did, without a coordinator
"""
