"""The consumer of a share group (KIP-932).

share_consumer: the user's calls
share_membership: the consumer as a member of its group
share_fetching: what to ask of which broker, and what the answers mean
held_messages: the messages of all partitions that the member holds, and results
acknowledgement_reports: results for the callback of the user; deserializers
sessions: the share session with one broker
held_records: the records of one partition that the member holds, as runs of offsets
share_decoding: one partition's part of a ShareFetch response
share_reader: sends the requests
acknowledge_type: accept, release, reject, renew
"""
