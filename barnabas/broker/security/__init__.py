"""Security of a broker: carries out what security/ decides.

- authentication: the logins of a listener
- logins: all SASL listeners of a broker
- offers: the mechanisms of a listener
- credentials: the SCRAM credentials of users, from the keeper
Nothing here is imported by a broker that does not use it.
"""
