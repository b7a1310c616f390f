"""Security of a client: with what it logs in, and the login of a connection."""
