"""The client: logic without IO, flows over one door to the outside, and two drivers.

Pure: session (one connection), metadata (who leads what), partitioner, accumulator (records to
batches), positions (batches to records). Flows over `Net` (net.py): cluster, admin. Drivers:
aio/ (asyncio), blocking/ (a thread, without an event loop).
"""
