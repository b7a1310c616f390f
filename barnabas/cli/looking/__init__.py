"""Commands that need packages of their own to look into a cluster.

console: pages in a browser
sql: queries over topics
demo_readers: groups and letters that make the demo worth looking at
"""
