"""A topic in one file, to attach to an issue or to load into a test.

recording_file: the format
record: a topic, or a part of it, into a file
replay: a file into a topic, at any speed
"""
