"""Brokers as processes of one command: `barnabas up --brokers N`.

up_cluster: which brokers there are, and where each stores and listens
supervisor: runs the processes, restarts one that dies, stops them all
forked: a broker in a forked process
console_process: the console of `up --console` and of the demo
ready: the messages between a broker and its parent process
lone_to_cluster: moves a lone broker's data into a directory of its own
"""
