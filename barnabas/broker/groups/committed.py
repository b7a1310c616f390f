"""Holds a reply back until the state that it was read from is committed.

In: a reply, the shards that were read. Out: the reply, now or later.
Always: if a shard is lost meanwhile, the reply is made again.
"""

from collections.abc import Callable, Iterable

from barnabas.broker.net.deferred_reply import DeferredReply
from barnabas.coordinators.groups.shard import GroupShard
from barnabas.coordinators.runtime import Runtime
from barnabas.wire.codec import ProtocolMessage

Reply = ProtocolMessage | DeferredReply[ProtocolMessage]


def when_committed(
    runtime: Runtime[GroupShard],
    indexes: Iterable[int],
    response: ProtocolMessage,
    again: Callable[[], Reply],
) -> Reply:
    deferred: DeferredReply[ProtocolMessage] = DeferredReply()
    left = 0
    lost = False

    def tell(committed: bool) -> None:
        nonlocal left, lost
        left -= 1
        lost = lost or not committed
        if left:
            return
        reply = again() if lost else response
        if isinstance(reply, DeferredReply):
            reply.then(deferred.set)
        else:
            deferred.set(reply)

    left = sum(not runtime.is_settled(index, tell) for index in indexes)
    return deferred if left else response
