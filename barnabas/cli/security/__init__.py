"""What commands about security share.

- passwords: where a password comes from, never the command line
- stored_users: users in the keeper, without a broker
"""
