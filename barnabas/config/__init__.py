"""Every option of brokers and topics, each declared once.

`TopicConfig` and `BrokerConfig` are what is in force, parsed; `alter` decides what may be
set, `describe` what is shown, `properties` reads files. `python -m barnabas.config` prints
docs/config.md.
"""
