"""Brokers as processes, in a cluster, with faults."""
