"""Every option, declared once: it feeds the parser, DescribeConfigs and docs/config.md.

option: the declaration of an option
kinds: text to value and back, with bounds
resolve: precedence: which of several settings of an option is in force
properties: the format of server.properties files
alter: whether a setting may be changed
describe: the response to DescribeConfigs
topic, group, client, client_security, client_metrics: the options of each
broker, broker_access, broker_listeners, broker_log, broker_roles, broker_sasl,
broker_tls: the options of a broker
listener_options: options of one listener (`listener.name.NAME.OPTION`)
no_effect: options that are accepted and have no effect
unsupported: Kafka's options that are refused, and the reason
kafka_options, kafka_table, kafka_table_security: the rest of Kafka's broker options, described only

`python -m barnabas.config` prints docs/config.md.
"""
