"""The controller: which replica leads each partition, and where replicas are.

Pure; broker/controller/ runs it.

controller: one operation per event: what is called when
tenure: one tenure of a controller: what it knows, and how each change is written and sent
state: brokers, topics and the state of every partition
steps: the steps that an operation yields, and the results that it receives
takeover: what a new controller reads and finishes first
brokers: what happens when a broker starts, stops, loses a disk or is unregistered
leader_election: which replica becomes leader, after a loss and in an unclean election
requested_elections: elections without a failure: preferred leader, ElectLeaders
proof: which replica may lead when no in-sync replica is registered
in_sync: accepts or refuses the in-sync sets that leaders propose (AlterPartition)
topics: creates, extends and deletes topics
placement: on which brokers the replicas of a new partition are
reassignment: moves replicas to other brokers, step by step (KIP-455)
messages: LeaderAndIsr, StopReplica and UpdateMetadata, built for each broker
history: what happened in the cluster, and why
"""
