"""Refusals in the log: the first at once, then one line per client and minute."""

import asyncio
import errno
import json
from io import StringIO
from typing import Any

import pytest

from barnabas.broker.net import refused_requests as refusals
from barnabas.broker.net.refused_requests import RefusedRequests
from barnabas.model.errors import Code, Failed, InvalidRequest
from barnabas.system.logs import Logger
from tests.waiting import WAIT_S

PEER = "10.0.0.1:4711"


def lines(stream: StringIO, event: str = "topic not created") -> list[dict[str, Any]]:
    found = [json.loads(line) for line in stream.getvalue().splitlines()]
    return [line for line in found if line["event"] == event]


def refuse(to: RefusedRequests, client: str = "c", topic: str = "t", reason: str = "no") -> None:
    error = InvalidRequest(Code.INVALID_REQUEST, reason)
    to.add("topic not created", PEER, client, error, {"topic": topic})


async def test_a_refusal_that_repeats_is_counted_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(refusals, "REPEAT_S", 0.01)
    stream = StringIO()
    log = RefusedRequests(Logger(stream), asyncio.get_running_loop())
    for number in range(300):
        refuse(log, reason=f"reason {number}")
    (first,) = lines(stream)
    assert (first["client"], first["reason"], "repeated" in first) == ("c", "reason 0", False)
    async with asyncio.timeout(WAIT_S):
        while len(lines(stream)) < 2:
            await asyncio.sleep(0)
    repeated = lines(stream)[1]
    assert (repeated["repeated"], repeated["reason"]) == (299, "reason 299")
    async with asyncio.timeout(WAIT_S):
        while log._recent:  # a minute without one: the next is logged at once
            await asyncio.sleep(0.01)
    refuse(log)
    assert len(lines(stream)) == 3
    log.flush()


async def test_refusals_of_others_and_of_other_things_are_lines_of_their_own() -> None:
    stream = StringIO()
    log = RefusedRequests(Logger(stream), asyncio.get_running_loop())
    for client, topic in (("c", "t"), ("d", "t"), ("c", "u"), ("c", "t")):
        refuse(log, client, topic)
    assert len(lines(stream)) == 3
    log.flush()
    assert [line.get("repeated") for line in lines(stream)] == [None, None, None, 1]


async def test_the_memory_for_refusals_is_bounded() -> None:
    stream = StringIO()
    log = RefusedRequests(Logger(stream), asyncio.get_running_loop())
    for number in range(refusals.KINDS_MAX + 50):
        refuse(log, topic=f"t{number}")
    assert len(log._recent) == refusals.KINDS_MAX
    log.flush()


async def test_the_same_refusal_for_another_error_of_the_system_is_a_line_of_its_own() -> None:
    stream = StringIO()
    log = RefusedRequests(Logger(stream), asyncio.get_running_loop())
    for number in (errno.EMFILE, errno.ENOSPC, errno.ENOSPC):
        error = Failed(Code.KAFKA_STORAGE_ERROR, f"error {number}")
        error.__cause__ = OSError(number, "")
        log.add("append refused", PEER, "c", error, {"topic": "t"})
    told = [line["reason"] for line in lines(stream, "append refused")]
    assert told == [f"error {errno.EMFILE}", f"error {errno.ENOSPC}"]
    log.flush()
