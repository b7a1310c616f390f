"""How the replicas of one partition stay the same. Pure; broker/replicas/ runs it.

leader: in-sync set (shrinks, grows), high watermark
follower: where a follower continues to fetch, and where it truncates its log
state: leader, epochs and in-sync replicas, as the controller sends them
throttle: how many bytes per second a throttled replica may move
"""
