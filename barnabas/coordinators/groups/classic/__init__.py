"""Classic groups: JoinGroup, SyncGroup, Heartbeat, LeaveGroup; clients compute the assignment."""
