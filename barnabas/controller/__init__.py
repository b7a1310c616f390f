"""The controller: who leads which partition, and where replicas are. Pure; broker/ drives it."""
