"""Types that all other packages use: ids, errors, and the ports (interfaces to the outside).

ids: types of names and numbers
errors: Kafka's error codes, and the exception class that says what to do
ports: Clock, Disk and Network: interfaces to the outside, implemented in system/
system_errors: error numbers of the operating system as text
lazy: loads a module when one of its names is first used
features: the features of Kafka that this broker supports, and their levels
version: the version of this package
words: times and names as text
"""
