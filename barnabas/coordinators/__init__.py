"""Who coordinates: groups now, transactions later, each on the same runtime."""
