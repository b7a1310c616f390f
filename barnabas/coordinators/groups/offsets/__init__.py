"""Committed offsets: commit, fetch, delete, and retention."""
