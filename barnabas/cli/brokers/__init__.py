"""Brokers as processes of one command: `barnabas up --brokers N`.

up_cluster: which brokers there are, and where each stores and listens
supervisor: runs the processes, restarts one that dies, stops them all
forked: a broker in a forked process
ready: what a broker and its parent process say to each other
lone_to_cluster: moves a lone broker's data into a directory of its own
"""
