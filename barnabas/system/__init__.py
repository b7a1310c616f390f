"""The real clock, disk and network behind the ports of model/ports.py.

clock: the machine's clocks
disk: the file system
network: sockets, watched by the event loop
logs: log lines as text or JSON
log_writer: writes log lines from a thread
machine: the id of this machine since its start; open files of this process
unblocked: writes a line to standard output without waiting for its reader
"""
