"""Controller election, and the active controller at work; its decisions are in controller/.

controller_election: stands for election, and answers what only the controller answers
active_controller: a controller at work, from its election until it resigns
store: the controller's changes as nodes of the keeper
store_reads: the nodes of the keeper as what the controller reads
channels: one ordered queue of requests per broker
"""
