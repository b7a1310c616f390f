"""Spark: `format("barnabas")` as source and sink, a query as a consumer group.

Nothing here is imported before Spark or a user asks for it: pyspark is half a gigabyte.
"""
