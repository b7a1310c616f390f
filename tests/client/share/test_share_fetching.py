"""A member of a share group and its brokers: histories of lost connections, locks and leaders."""

import random
from contextlib import suppress

import pytest

from barnabas.client.consumer.message import RawMessage
from barnabas.client.share.acknowledge_type import AcknowledgeType
from barnabas.client.share.held_messages import AcknowledgeResult
from barnabas.client.share.sessions import ShareFetchLimits
from barnabas.client.share.share_fetching import ShareFetching
from barnabas.model.errors import Code, InvalidRequest, Retriable
from tests.client.fetched import AT, OTHER, view
from tests.client.share.share_brokers import ShareBrokers

LIMITS = ShareFetchLimits(0, 1, 1 << 20, 10, 0)
LOST = Retriable(Code.NETWORK_EXCEPTION, "lost")


def member() -> ShareFetching:
    core = ShareFetching("g", "m", backoff_ms=1, crc=True)
    core.assign([AT, OTHER])
    return core


def exchanged(
    core: ShareFetching, brokers: ShareBrokers, now: int, limits: ShareFetchLimits | None = LIMITS
) -> None:
    for broker, request in core.plan(view(*brokers.leaders), now, limits):
        core.answered(broker, brokers.handle(broker, request, now), now)


@pytest.mark.parametrize("seed", range(30))
def test_every_record_is_accepted_through_losses_and_moves_and_none_twice(seed: int) -> None:
    chance = random.Random(seed)
    brokers, core = ShareBrokers(chance), member()
    using: list[RawMessage] = []
    results: list[AcknowledgeResult] = []
    for now in range(0, 40_000, 10):
        if now < 20_000:
            if chance.random() < 0.02:
                brokers.move(chance.randrange(2), chance.choice((1, 2)))
            if chance.random() < 0.02:
                brokers.disconnect(chance.choice((1, 2)))
        known = view(*brokers.leaders) if chance.random() < 0.7 else view(1, 2)
        limits = LIMITS if chance.random() < 0.7 else None
        for broker, request in core.plan(known, now, limits):
            fate = chance.random() if now < 20_000 else 1.0
            if fate < 0.03:  # it does not arrive
                brokers.disconnect(broker)
                core.failed_request(broker, LOST, now, sent=True)
                continue
            response = brokers.handle(broker, request, now)
            if fate < 0.06:  # the answer does not arrive
                brokers.disconnect(broker)
                core.failed_request(broker, LOST, now, sent=True)
            else:
                core.answered(broker, response, now)
        using += core.messages.take(chance.randrange(1, 8), now)
        for message in list(using):
            if chance.random() < 0.3:
                kind = AcknowledgeType(chance.choice((1, 1, 1, 2, 4)))
                with suppress(InvalidRequest):  # its lock had ended, and others finished it
                    core.messages.acknowledge(message, kind)
                if kind is not AcknowledgeType.RENEW:
                    using.remove(message)
        results += core.messages.results()
        assert core.failed is None
        if len(brokers.accepted) == 80 and not core.unsent and not using:
            break
    assert len(brokers.accepted) == 80, "a record never came"
    assert set(brokers.accepted.values()) == {1}, "the broker accepted one record twice"
    told = {
        (result.at.partition, offset)
        for result in results
        if result.error is None
        for run in result.runs
        if run.type == AcknowledgeType.ACCEPT
        for offset in range(run.first, run.last + 1)
    }
    assert told <= set(brokers.accepted), "a result says accepted, the broker did not accept"
    assert core.unsettled() == []


def test_what_was_fetched_and_not_returned_before_its_lock_ended_is_not_returned() -> None:
    brokers, core = ShareBrokers(random.Random(1)), member()
    exchanged(core, brokers, 0)
    assert len(core.messages.take(3, 50)) == 3
    assert core.messages.take(100, 150) == []


def test_records_of_a_partition_that_the_group_took_away_are_released() -> None:
    brokers, core = ShareBrokers(random.Random(1)), member()
    exchanged(core, brokers, 0)
    core.assign([AT])
    exchanged(core, brokers, 1)
    exchanged(core, brokers, 2, None)
    assert {one.state for one in brokers.log[1]} == {"available"}
    assert all(message.partition == 0 for message in core.messages.take(100, 3))


def test_a_close_sends_acknowledgements_and_releases_the_rest() -> None:
    brokers, core = ShareBrokers(random.Random(1)), member()
    exchanged(core, brokers, 0)
    first, *_ = core.messages.take(5, 1)
    core.messages.acknowledge(first, AcknowledgeType.ACCEPT)
    for broker, request in core.closing_requests(2):
        core.answered(broker, brokers.handle(broker, request, 2), 2)
    states = [one.state for partition in brokers.log for one in partition]
    assert states.count("done") == 1
    assert states.count("available") == 79
    assert [result.error for result in core.messages.results()] == [None]


def test_a_message_of_an_ended_session_is_reported_not_sent() -> None:
    brokers, core = ShareBrokers(random.Random(1)), member()
    exchanged(core, brokers, 0)
    message = core.messages.take(1, 1)[0]
    brokers.disconnect(1)
    brokers.disconnect(2)
    exchanged(core, brokers, 2)
    core.messages.acknowledge(message, AcknowledgeType.ACCEPT)
    (result,) = core.messages.results()
    assert result.error is not None
    assert brokers.accepted == {}
    with pytest.raises(InvalidRequest, match="is not held by this consumer"):
        core.messages.acknowledge(message, AcknowledgeType.ACCEPT)


def test_a_message_that_was_acknowledged_and_sent_is_not_acknowledged_again() -> None:
    brokers, core = ShareBrokers(random.Random(1)), member()
    exchanged(core, brokers, 0)
    message = core.messages.take(1, 1)[0]
    core.messages.acknowledge(message, AcknowledgeType.RELEASE)
    core.messages.acknowledge(message, AcknowledgeType.ACCEPT)
    exchanged(core, brokers, 2, None)
    assert list(brokers.accepted) == [(message.partition, message.offset)]
    with pytest.raises(InvalidRequest, match="is not held by this consumer"):
        core.messages.acknowledge(message, AcknowledgeType.ACCEPT)


def test_record_limit_divides_the_limit_among_the_brokers() -> None:
    core = member()
    limits = LIMITS._replace(acquire_mode=1, records_max=5)
    asked = [plan.request for plan in core.plan(view(1, 2), 0, limits)]
    assert [getattr(request, "max_records", None) for request in asked] == [3, 3]
