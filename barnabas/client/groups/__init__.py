"""Consumer groups seen from outside: what they are, what is wrong with them, where they stand."""
