"""Who a client is, and what it may do: decisions only.

- principal: the name of an authenticated client
- sasl: mechanisms, credentials, and the order of requests of a login
Not here: connections, the keeper, certificates (broker/security/, client/security/).
"""
