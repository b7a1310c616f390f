"""The decisions of a partition's leader and of its followers."""
