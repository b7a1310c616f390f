"""Consumer groups as an administrator sees them: state, lag, causes of rebalances, findings.

calls: the requests: list, describe, offsets, rebalance history; reset and delete
requests: builds the requests that change offsets
answers: reads the responses
report: one group at one moment
reporting: collects a report from several brokers
diagnosis: all findings about a report
lag_rules: findings about lag and progress
member_rules: findings about members
text: a group as text, and as rows and documents
targets: where offsets may be set to
seek: sets the offsets of a group, and takes it back
"""
