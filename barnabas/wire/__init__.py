"""Bytes on the wire and in the log: messages, frames, record batches, compression."""
