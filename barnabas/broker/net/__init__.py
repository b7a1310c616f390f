"""From a socket to a handler and back: frames in, replies out, in the order of their requests.

listeners: opens the listeners and accepts connections within the limits
connection: one client's connection
listener_context: what the connections of a listener share
frame: which requests are refused for their size, and a request that takes several reads
lanes: which connection is served next: control requests before data requests
buffers: memory for requests and replies, reused and bounded
dispatch: decodes a request, calls its handler, encodes the response
deferred_reply: the promise type; long polls wait in requests/delayed_fetch.py, acks=all in
    uncommitted.py
fetch_sessions: incremental fetch sessions of consumers (KIP-227)
file_descriptors: how the broker divides its open files
refused_requests: logs refused requests, one line per client and minute
"""
