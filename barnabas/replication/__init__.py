"""How the replicas of one partition stay the same: the leader's side and the follower's."""
