"""Pipelines that topics ask for with the option `lake`.

template: what their specs have in common, and the spec of a topic
lake_topics: finds the topics that ask for a table
tables: whose rows a table has, and where they end
serving: runs them on one Spark, and reports to the brokers what is in the tables
"""
