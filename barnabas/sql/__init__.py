"""SQL over topics: DuckDB on Arrow, in a process of its own.

statement: what a query reads, and its conditions
ranges: the offsets that the conditions leave
worker: the process that runs it
running: starts the process, passes its results on, ends it at a limit
Why a process: a query that takes too long or too much memory is killed, and nothing else is.
"""
