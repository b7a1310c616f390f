"""Pipelines whose driver and executors are killed at random, and what must be true all the same."""
