"""Access rules (ACLs): what they say, the decision, and why it was made. Pure.

rules: rules, filters, and the words and numbers of their fields
hosts: one spelling for each address
index: decides with all rules; quick with many
decisions: the decision with super users, defaults and a bounded cache
text: rules as the command line writes them
explain: the deciding rule, rules that nearly apply, the narrowest rule that would allow it
rule_nodes: the nodes of rules in the keeper, as Kafka kept them in ZooKeeper
rule_changes: what a request to add or delete rules changes
"""
