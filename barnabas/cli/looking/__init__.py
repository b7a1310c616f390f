"""Commands that need packages of their own to look into a cluster.

console: pages in a browser
sql: queries over topics
"""
