"""The options of streams groups: of the broker, and of a group."""
