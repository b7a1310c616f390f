"""How many requests and bytes per second each client sends and receives; no requests, no clock.

In: the connections of two looks, and their times. Out: rates of the rows of client_rows.py.
Always: a connection has a rate from its second look on.
"""

from collections.abc import Iterable
from typing import NamedTuple

from barnabas.client.admin.clients import ConnectedClient
from barnabas.client.client_rows import host_of

RowKey = tuple[str, str, str, str]
"""Client id, software, host, principal."""


LOOK_MS_MAX = 60_000


class ClientRates(NamedTuple):
    """Per second, of all connections of a row."""

    requests: float
    bytes_in: float
    bytes_out: float


class ClientLooks:
    """The looks at the connections of a cluster, of which only the last is kept."""

    def __init__(self) -> None:
        self._at_ms = 0
        self._before: dict[tuple[int, str], ConnectedClient] = {}

    def add(self, clients: Iterable[ConnectedClient], now_ms: int) -> dict[RowKey, ClientRates]:
        """The rates since the look before, if it is not too old; of clients that it had."""
        if now_ms - self._at_ms > LOOK_MS_MAX:
            self._before = {}
        seconds = (now_ms - self._at_ms) / 1_000
        found = {(each.broker, each.peer): each for each in clients if each.requests >= 0}
        rates: dict[RowKey, ClientRates] = {}
        for at, each in found.items():
            before = self._before.get(at)
            if before is None or before.requests > each.requests or seconds <= 0:
                continue  # new, or another connection from the same port
            key = (each.client_id, each.client, host_of(each.peer), each.principal)
            known = rates.get(key, ClientRates(0, 0, 0))
            rates[key] = ClientRates(
                known.requests + (each.requests - before.requests) / seconds,
                known.bytes_in + (each.bytes_in - before.bytes_in) / seconds,
                known.bytes_out + (each.bytes_out - before.bytes_out) / seconds,
            )
        self._at_ms, self._before = now_ms, found
        return rates
