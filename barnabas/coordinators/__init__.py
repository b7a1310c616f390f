"""The coordinators of groups and of transactions, each on the same runtime."""
