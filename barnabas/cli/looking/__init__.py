"""Commands that need packages of their own to look into a cluster.

console: pages in a browser
sql: queries over topics
query_file: where their results go
demo_readers: groups and letters that make the demo worth looking at
"""
