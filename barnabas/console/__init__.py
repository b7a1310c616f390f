"""The console: pages about a cluster, made on the server, over the wire protocol alone.

serving: runs the HTTP server
application: which address has which page, and errors as pages
guard: who may ask, and what every answer carries
access: tokens and form tokens
sessions: users of the cluster who have logged in
cluster_state: what all pages share about the cluster, kept up to date off the request path
sweep: a look at everything, once a minute
view: a page as HTML, and its twins in JSON and CSV
words: filters of templates
charts: SVG
topic_names: what the name of a topic tells
reading: records for pages
values: keys and values as text, with a schema registry
masking: fields that are not shown
scanning: looks for records by key, value and header
changes: what may be changed, and the line that is logged
pages/ has one module per subject, templates/ and static/ what a browser gets. Why it is built so:
docs/adr/0048. Nothing here is imported by a broker or by a client.
"""
