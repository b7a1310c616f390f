"""Why each group rebalanced: entries per generation, statistics over all groups, sentences."""
