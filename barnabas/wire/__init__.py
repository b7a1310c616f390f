"""Bytes on the wire and in the log: messages, frames, record batches, compression.

Messages:
messages/: one file per API
apis: number, versions and messages of each API
codec: from a message definition to functions that read and write it, per version
plan: the fields of one version, and the source text generated from them
decoder, encoder: generate the function that reads, or writes, one version
primitives: varints, tags, UUIDs, and the errors of bad bytes
frames: requests and responses with their headers
session: the client side of one connection: correlation ids, without the socket

Records:
batch: the header of a record batch
records: builds batches and reads them
control_records: the records that end a transaction: commit and abort markers
record_loops, record_writer: the loops over records (compiled)
columns: record batches to Arrow columns (compiled)
column_writer: Arrow rows to record batches (compiled)
compression: the five compression types, with bounded output
checksum: CRC-32C
"""
