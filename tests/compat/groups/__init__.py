"""Group members as processes of their own, to kill, stop and start."""
