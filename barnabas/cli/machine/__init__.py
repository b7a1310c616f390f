"""Commands about this machine and its files.

doctor: what would hinder a broker here
keeper: the store that brokers share
log: the files of a log
"""
