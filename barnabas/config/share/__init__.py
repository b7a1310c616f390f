"""The options of share groups: of the broker, and of a group."""
