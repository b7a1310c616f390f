"""Brokers that are away: a continuous pipeline waits for them."""

from itertools import pairwise

import pytest

from barnabas.model.errors import Code, InvalidRequest, Retriable
from barnabas.pipeline.errors import DataLoss, PipelineError
from barnabas.pipeline.run.outage import Outage, is_outage

AWAY = PipelineError("no answer from 127.0.0.1:9092", Code.NETWORK_EXCEPTION)


def test_a_pipeline_waits_for_brokers_for_ever_and_longer_each_time() -> None:
    outage = Outage(None)
    outage.reached()
    waits = []
    now = 0
    for _ in range(1000):
        wait = outage.wait_ms(AWAY, now, now + 62_000)
        assert wait is not None
        waits.append(wait)
        now += 62_000 + wait
    assert waits[:6] == [1000, 2000, 4000, 8000, 16_000, 30_000]
    assert all(after >= before for before, after in pairwise(waits))
    assert max(waits) == 30_000


def test_a_pipeline_gives_up_after_the_time_that_the_user_set() -> None:
    outage = Outage(600_000)
    outage.reached()
    assert outage.wait_ms(AWAY, 0, 60_000) is not None
    assert outage.wait_ms(AWAY, 590_000, 659_999) is not None
    assert outage.wait_ms(AWAY, 600_000, 660_000) is None


def test_an_outage_ends_with_a_batch_or_a_long_attempt() -> None:
    for ended in (True, False):
        outage = Outage(600_000)
        outage.reached()
        assert outage.wait_ms(AWAY, 0, 60_000) == 1000
        assert outage.wait_ms(AWAY, 60_000, 120_000) == 2000
        if ended:
            outage.progressed()
        # Without a new record for an hour there is no batch either.
        began = 3_500_000 if ended else 121_000
        assert outage.wait_ms(AWAY, began, 3_600_000) == 1000


def test_a_pipeline_that_never_reached_a_broker_ends_at_once() -> None:
    assert Outage(None).wait_ms(AWAY, 0, 1) is None


@pytest.mark.parametrize(
    ("problem", "expected"),
    [
        (AWAY, True),
        (Retriable(Code.COORDINATOR_NOT_AVAILABLE, "group 'g'"), True),
        (PipelineError("records are missing", Code.REQUEST_TIMED_OUT), True),
        (PipelineError("column note is string"), False),
        (DataLoss("records may have been lost"), False),
        (InvalidRequest(Code.TOPIC_AUTHORIZATION_FAILED, "t"), False),
        (ValueError("an error of ours"), False),
    ],
)
def test_only_brokers_that_are_away_are_waited_for(problem: Exception, expected: bool) -> None:
    assert is_outage(problem) is expected
