"""A group's consumer that blocks: the same flows, run by the calling thread.

Heartbeats have their own thread: a member stays in its group while its reader works, even for
longer than `session.timeout.ms`. Everything else happens on the thread that polls.
"""

from collections.abc import Callable, Sequence
from typing import Any

from barnabas.client.blocking import open_cluster
from barnabas.client.blocking.messages import BlockingMessages
from barnabas.client.blocking.net import mirrored
from barnabas.client.consumer.consumer import Callback, sorted_out
from barnabas.client.consumer.consumer import Consumer as Flows
from barnabas.client.consumer.deserializing import ConsumerInterceptor
from barnabas.client.consumer.membership.assignors import Assignor
from barnabas.client.consumer.message import K, V
from barnabas.client.consumer.subscription import Subscription, Wanted
from barnabas.config.client import Settings, Value


class Consumer(BlockingMessages[K, V]):
    """`with Consumer("orders", group_id="billing") as c: for message in c: ...`"""

    def __init__(
        self,
        *what: Wanted | Settings,
        key_deserializer: Callable[[bytes], K] | None = None,
        value_deserializer: Callable[[bytes], V] | None = None,
        on_assigned: Callback | None = None,
        on_revoked: Callback | None = None,
        on_lost: Callback | None = None,
        assignors: Sequence[str | Assignor] | None = None,
        interceptors: Sequence[ConsumerInterceptor] = (),
        **options: Value,
    ) -> None:
        wanted, settings = sorted_out(what)
        opened = open_cluster(settings, options)
        self._body: Flows[Any, Any] = Flows(
            *wanted,
            key_deserializer=key_deserializer,
            value_deserializer=value_deserializer,
            on_assigned=on_assigned,
            on_revoked=on_revoked,
            on_lost=on_lost,
            assignors=assignors,
            interceptors=interceptors,
            cluster=opened,
        )
        self._body.stands_for(self)

    def subscribe(self, *topics: Wanted) -> None:
        """Subscribe to these topics from the next poll on, and to no others."""
        self._body.subscribe(*topics)

    def subscription(self) -> Subscription:
        return self._body.subscription()

    unsubscribe = mirrored(Flows[Any, Any].unsubscribe)

    @property
    def state(self) -> str:
        """`closed`, `unjoined` (it joins when it is polled), `joining`, `syncing`, `stable`, ..."""
        return self._body.state

    @property
    def member_id(self) -> str:
        """Empty while not a member."""
        return self._body.member_id

    @property
    def generation(self) -> int:
        """Of the group, or the epoch of this member; -1 while not a member."""
        return self._body.generation
