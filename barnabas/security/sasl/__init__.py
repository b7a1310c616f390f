"""SASL: how a client proves who it is.

- mechanism: what all mechanisms share
- plain, scram_server, scram_client, scram_messages, oauthbearer: the mechanisms
- jwt_validation: tokens of an identity provider
- credentials: what the broker stores of a SCRAM password
- delegation_tokens: secrets with which others act for their owner
- login: the broker's side of a login, request by request
- client_login: the client's side
- jaas: users and passwords in sasl.jaas.config
"""
