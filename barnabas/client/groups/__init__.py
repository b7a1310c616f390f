"""Consumer groups as an administrator sees them: state, lag, causes of rebalances, findings.

calls: the requests: list, describe, offsets, rebalance history; reset and delete
requests: builds the requests that change offsets
answers: reads the responses
report: one group at one moment
reporting: collects a report from several brokers
diagnosis: all findings about a report
lag_rules: findings about lag and progress
member_rules: findings about members
offered: which APIs a broker offers
share_calls: the requests about share groups
share_partitions: asks the brokers what a share group has in flight
share_text: the same as text, rows and documents
share_rules: findings about share groups
streams_calls: the requests about streams groups
streams_rules: findings about streams groups
text: a group as text, and as rows and documents
targets: where offsets may be set to
seek: sets the offsets of a group, and takes it back
"""
