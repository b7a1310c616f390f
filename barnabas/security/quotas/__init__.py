"""Quotas: how much a client may use of one broker. Pure.

entities: whom a quota is for: users, client ids, addresses, and their defaults
quota_limits: the limits, how they are checked and stored, and which of them holds for a client
quota_filters: which entities a request to describe quotas asks for
usage: what a client has used: rates in windows, and a token bucket
"""
