"""Why each group rebalanced.

rebalance_history: the causes of each generation of a group
statistics: counts over all groups, and a bound on the memory of their histories
text: causes as sentences
"""
