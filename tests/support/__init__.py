"""Other people's programs: how each is fetched, started and spoken to."""
