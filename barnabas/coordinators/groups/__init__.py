"""Consumer groups: membership, generations, committed offsets, and why each rebalance was."""
