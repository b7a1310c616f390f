"""What each request needs, by access rules.

- table: the rights of each API: the one place where an API gets its check
- requester: who sends a request, and what it may do
- answers: a handler's answer, changed when it is there
- whole_requests: requests that need one right, and their refusals
- topics: requests that name topics
- topic_metadata: Metadata, DescribeTopicPartitions, DescribeCluster
- records: Produce, Fetch
- share_records: ShareFetch, ShareAcknowledge
- offsets: requests about committed offsets
- group_requests: requests about groups
- share_groups: requests about share groups
- streams_groups: requests about streams groups
- transactional: requests about transactions
- administration: topics created and deleted, settings

A check wraps a handler: it removes from the request what is denied, calls the handler with the
rest, and adds the refusals to the answer. Rights are checked before existence, so that a client
learns nothing about what it may not see.
Nothing here is imported by a broker without an authorizer.
"""
