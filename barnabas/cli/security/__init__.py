"""The commands about security, and what they share.

- user: `barnabas user`
- passwords: where a password comes from, never the command line
- stored_users: users in the keeper, without a broker
"""
