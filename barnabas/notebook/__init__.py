"""Barnabas in a notebook: a broker in this process, topics and groups that show themselves.

    kafka = barnabas.start()
    kafka.topic("orders").send({"id": 1})
    kafka.topic("orders")

notebook: `start`, `connect`, and what they return
asking: SQL over topics
reading: records as messages
tables: records as Arrow tables
frames: Arrow tables as data frames of pandas or polars
shown: HTML, escaped
"""
