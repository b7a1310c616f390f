"""Who a client is, and what it may do: decisions only.

- principal: the name of an authenticated client
- certificate: the subject, the names and the end of a certificate
- principal_mapping: the user of a certificate's subject; regex: patterns for that
- sasl: mechanisms, credentials, and the order of requests of a login
- acl: access rules and their decision
- quotas: how much a client may use
Not here: connections, the keeper, certificates (broker/security/, client/security/).
"""
