"""Reads what a load was told, and finds what is missing.

In: acknowledged records, and who leads each partition. Out: nothing, or Violation.
"""

from collections.abc import Mapping

from barnabas.wire.records import decode_batch, iter_batches
from tests.os_faults.load import Load
from tests.raw import RawClient, records_in

Place = tuple[str, int]


class Violation(AssertionError):
    """A promise was broken."""


class Reading:
    """How far the logs of a rig have been read."""

    def __init__(self) -> None:
        self._ends: dict[Place, int] = {}
        self._values: set[bytes] = set()

    def check(self, load: Load, ports: Mapping[Place, int]) -> None:
        for place, offsets in list(load.acknowledged.items()):
            unplaced = set(load.unplaced.get(place, ()))
            self._read_on(place, dict(offsets), ports[place])
            if lost := unplaced - self._values:
                raise Violation(f"{place}: {len(lost)} acknowledged without an offset, not there")

    def _read_on(self, place: Place, due: dict[int, bytes], port: int) -> None:
        at = self._ends.get(place, 0)
        last = max(due)
        with RawClient("127.0.0.1", port) as client:
            while at <= last:
                before = at
                data = client.fetch(place[0], at, partition=place[1], max_wait_ms=500)
                for _, batch in iter_batches(records_in(data)):
                    for record in decode_batch(batch):
                        if record.offset >= before:
                            self._check(place, due, at, record.offset, record.value or b"")
                            at = record.offset + 1
                if at == before:
                    raise Violation(f"{place}: the log ends at {at}, {last} was acknowledged")
        self._ends[place] = at

    def _check(
        self, place: Place, due: dict[int, bytes], at: int, offset: int, value: bytes
    ) -> None:
        """`at`: the offset that comes next, unless it is that of no record."""
        self._values.add(value)
        wanted = due.get(offset)
        if wanted is not None and wanted != value:
            raise Violation(f"{place} offset {offset}: another one")
        if offset != at and any(skipped in due for skipped in range(at, offset)):
            raise Violation(f"{place} offset {at} was acknowledged, is not there")
