"""The client: logic without IO, flows over one interface to the outside, and two drivers.

producer/, consumer/, share/, admin/, groups/ and transactions/ (as an administrator sees them) hold
logic and flows; workers/ runs a function on the records of a topic, delay/ delivers records at a
time. Drivers: aio/ (asyncio) and
blocking/ (a thread, without an event loop).

cluster: a connection per broker, coordinators, retries, and the metadata cache
metadata_snapshot: brokers, topics and leaders, from one Metadata response
group_metadata: what a consumer passes to a producer, so that a transaction commits its offsets
session: one connection's side of the protocol, without the connection
net: the interface between flows and a driver: time, connections, waiting
sockets: what both drivers do to a socket
finding: one thing that is wrong, and what to do about it
tables: rows as a table in plain text
cluster_rows: brokers, partitions and events as rows
client_rows: connected clients as rows
client_rates: how fast they send and receive
segment_rows: segments of logs as rows
words: numbers and names as text
errors: from an error code to the exception whose class says what to do
backoff: how long to wait before the next try
owner_process: the process that a client object belongs to
"""
