"""Waits until changed settings are applied on every live broker, so that no read is stale.

In: the response to a change of settings. Out: the same response, a little later.
Always: the wait is bounded, also if a broker is paused or unreachable; such a broker is awaited
once, and not again before it has responded.
Not here: reading settings from the keeper (settings.py).
"""

import asyncio
from typing import TYPE_CHECKING, Any

from barnabas.model.errors import KafkaError
from barnabas.model.ids import BrokerId
from barnabas.system.logs import Logger
from barnabas.wire.messages.refresh_settings import RefreshSettingsRequest

if TYPE_CHECKING:
    from barnabas.broker.cluster.membership import ClusterMembership
    from barnabas.wire.codec import ProtocolMessage

WAIT_MS_MAX = 3_000
CALL_MS_MAX = 30_000  # after this time, a broker that does not respond may be awaited again


class SettingsPropagation:
    """For the changes that clients request from one broker."""

    def __init__(self, cluster: "ClusterMembership", log: Logger) -> None:
        self._cluster = cluster
        self._log = log
        self.overdue: set[BrokerId] = set()
        self._calls: set[asyncio.Task[None]] = set()

    async def wait(self, request: "ProtocolMessage", answer: "ProtocolMessage") -> None:
        """Until the changes that the response confirms are applied."""
        if _has_changed(request, answer):
            await self.apply_everywhere()

    async def apply_everywhere(self) -> None:
        """Until every live broker has applied the settings in the keeper, or is overdue."""
        own = self._cluster.peers.own
        others = [each for each in self._cluster.members if each != own]
        calls = {
            asyncio.create_task(self._call(each)): each
            for each in others
            if each not in self.overdue
        }
        for call in calls:
            self._calls.add(call)
            call.add_done_callback(self._calls.discard)
        await self._cluster.refresh()
        if not calls:
            return
        _, late = await asyncio.wait(calls, timeout=WAIT_MS_MAX / 1000)
        for call in late:
            self.overdue.add(calls[call])
        if late:
            brokers = sorted(calls[call] for call in late)
            self._log.warning("settings not applied everywhere yet", brokers=brokers)

    def close(self) -> None:
        for call in self._calls:
            call.cancel()

    async def _call(self, broker: BrokerId) -> None:
        try:
            await self._cluster.peers.call(
                broker, RefreshSettingsRequest(), lane="forward", timeout_ms=CALL_MS_MAX
            )
        except KafkaError:
            pass  # it has failed, and reads everything when it comes back
        finally:
            self.overdue.discard(broker)


def _has_changed(request: "ProtocolMessage", answer: "ProtocolMessage") -> bool:
    """Whether the response confirms at least one change."""
    if getattr(request, "validate_only", False):
        return False
    names = ("responses", "results", "entries")
    results: list[Any] = next(
        (found for name in names if (found := getattr(answer, name, None))), []
    )
    return any(not each.error_code for each in results)
