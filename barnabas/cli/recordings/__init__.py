"""Commands that write records from elsewhere, or to a file.

gen: sample records
record: a topic into a file
replay: such a file into a topic
"""
