"""Every option of brokers and topics, each declared once.

`TopicConfig` and `BrokerConfig` hold the effective values, parsed; `alter` decides which settings
are accepted, `describe` returns them for DescribeConfigs, `properties` reads files. `python -m
barnabas.config` prints docs/config.md.
"""
