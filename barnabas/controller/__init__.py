"""Decides which broker leads which partition, and where replicas are. Pure; broker/ runs it."""
