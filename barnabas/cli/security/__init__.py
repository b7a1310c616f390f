"""The commands about security, and what they share.

- acl: `barnabas acl`
- acl_rules: access rules from and to a cluster, and in files
- acl_text: access rules and decisions as text
- quota: `barnabas quota`
- tls: `barnabas tls`
- user: `barnabas user`
- dev_certificates: a certificate authority for development
- passwords: where a password comes from, never the command line
- stored_users: users in the keeper, without a broker
"""
