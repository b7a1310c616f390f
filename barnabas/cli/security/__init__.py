"""The commands about security, and what they share.

- tls: `barnabas tls`
- user: `barnabas user`
- dev_certificates: a certificate authority for development
- passwords: where a password comes from, never the command line
- stored_users: users in the keeper, without a broker
"""
