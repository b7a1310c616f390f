"""Security of a broker: carries out what security/ decides.

- authentication: the logins of a listener
- logins: all SASL listeners of a broker
- mechanisms: the SASL mechanisms of a listener, from its options
- jwks: the keys of an identity provider
- tokens: delegation tokens
- credentials: the SCRAM credentials of users, from the keeper
- authorizer: the access rules in force on this broker, from the keeper
- rule_store: reads and writes access rules in the keeper
- denials: denied requests: an audit log with a limited rate, and the last ones for people
- quotas: the limits in force on this broker, what clients have used, and who must wait
- limited_requests: requests of clients that have quotas
- mutation_quota: partitions that clients with quotas create and delete
- connection_rates: how many connections are created in a second
- throttle_log: throttled clients: counters, and log lines with a limited rate
- certificates: the keys and certificates of a listener, read again when they change
- tls_listener: accepts connections with TLS
Nothing here is imported by a broker that does not use it.
"""
