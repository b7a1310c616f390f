"""Only one task or thread at a time polls a consumer."""

from collections.abc import Coroutine
from typing import Any, TypeVar

from barnabas.client.consumer.reader import closed
from barnabas.client.net import Net
from barnabas.model.errors import Code, InvalidRequest

R = TypeVar("R")


class WokenUp(Exception):
    """`wakeup()` was called: no message was lost, and the consumer can be used on."""


class OnePoll:
    """Of one consumer, which sets `closed` at its end."""

    def __init__(self, net: Net) -> None:
        self._net = net
        self._polling = False
        self.closed = False
        self.woken = False  # the poll that runs, or the next one, raises WokenUp

    def check_woken(self) -> None:
        if self.woken:
            self.woken = False
            raise WokenUp("wakeup() was called on this consumer")

    async def run(self, flow: Coroutine[Any, Any, R]) -> R:
        """Runs the flow, unless the consumer is closed, polled, or not this task's or thread's."""
        try:
            self._net.check_owner()
            if self.closed:
                raise closed()
            if self._polling:
                raise InvalidRequest(
                    Code.INVALID_REQUEST,
                    "another task or thread polls this consumer: one task or thread at a time",
                )
        except BaseException:
            flow.close()
            raise
        self._polling = True
        try:
            return await flow
        finally:
            self._polling = False
