"""Which limit holds for a client: Kafka's order of precedence; and what a limit may be."""

import random
from itertools import product

import pytest

from barnabas.model.errors import InvalidRequest
from barnabas.security.quotas.entities import DEFAULT, QuotaEntity
from barnabas.security.quotas.quota_limits import (
    QuotaKind,
    QuotaLimits,
    changed_settings,
    read_limits,
)
from tests.share import SEED, examples

ALICE, APP = "alice", "app"
# Every entity that can have a limit for this client, the most specific one first, and the entity
# whose connections share the limit.
BOTH = QuotaEntity(ALICE, APP)
PRECEDENCE = [
    (BOTH, BOTH),
    (QuotaEntity(ALICE, DEFAULT), BOTH),
    (QuotaEntity(ALICE), QuotaEntity(ALICE)),
    (QuotaEntity(DEFAULT, APP), BOTH),
    (QuotaEntity(DEFAULT, DEFAULT), BOTH),
    (QuotaEntity(DEFAULT), QuotaEntity(ALICE)),
    (QuotaEntity(client_id=APP), QuotaEntity(client_id=APP)),
    (QuotaEntity(client_id=DEFAULT), QuotaEntity(client_id=APP)),
]
OTHERS = [
    QuotaEntity("bob", APP),
    QuotaEntity("bob"),
    QuotaEntity(ALICE, "other"),
    QuotaEntity(client_id="other"),
    QuotaEntity(ip="10.0.0.1"),
]


def limits_of(*entities: QuotaEntity, kind: QuotaKind = QuotaKind.PRODUCE) -> QuotaLimits:
    limits = QuotaLimits()
    for number, entity in enumerate(entities):
        limits.replace(entity, {kind: number + 1.0})
    return limits


@pytest.mark.parametrize("first", range(len(PRECEDENCE)))
def test_the_most_specific_entity_decides(first: int) -> None:
    """With all entities from this one on, and entities of others, in any order."""
    source, shared_by = PRECEDENCE[first]
    present = [entity for entity, _ in PRECEDENCE[first:]] + OTHERS
    for shift in range(len(present)):
        order = present[shift:] + present[:shift]
        found = limits_of(*order).find(QuotaKind.PRODUCE, ALICE, APP)
        assert found is not None
        assert found.source == source
        assert found.shared_by == shared_by
        assert found.value == order.index(source) + 1


def test_any_set_of_limits_gives_the_first_of_the_table() -> None:
    chance = random.Random(SEED)
    for _ in range(examples(500)):
        present = [pair for pair in PRECEDENCE if chance.random() < 0.3]
        found = limits_of(*(entity for entity, _ in present), *OTHERS).find(
            QuotaKind.PRODUCE, ALICE, APP
        )
        assert (found and (found.source, found.shared_by)) == (present[0] if present else None)


def test_without_a_matching_entity_there_is_no_limit() -> None:
    assert limits_of(*OTHERS).find(QuotaKind.PRODUCE, ALICE, APP) is None


def test_each_kind_of_limit_is_looked_up_alone() -> None:
    limits = limits_of(QuotaEntity(ALICE, APP), kind=QuotaKind.PRODUCE)
    limits.replace(QuotaEntity(DEFAULT), {QuotaKind.FETCH: 7.0})
    found = limits.find(QuotaKind.FETCH, ALICE, APP)
    assert found is not None
    assert found.value == 7.0


def test_users_under_a_default_do_not_share_it() -> None:
    limits = limits_of(QuotaEntity(DEFAULT))
    sharing = {limits.find(QuotaKind.PRODUCE, user, APP).shared_by for user in "abc"}  # type: ignore[union-attr]
    assert sharing == {QuotaEntity(user) for user in "abc"}


def test_an_address_has_its_own_limit_or_the_default() -> None:
    limits = limits_of(
        QuotaEntity(ip="10.0.0.1"), QuotaEntity(ip=DEFAULT), kind=QuotaKind.CONNECTION
    )
    own, other = limits.find_address("10.0.0.1"), limits.find_address("10.0.0.2")
    assert own is not None
    assert other is not None
    assert (own.value, other.value) == (1.0, 2.0)
    assert other.shared_by == QuotaEntity(ip="10.0.0.2")


def test_removed_limits_leave_nothing() -> None:
    limits = limits_of(*(entity for entity, _ in PRECEDENCE))
    assert limits
    for entity, _ in PRECEDENCE:
        assert limits.replace(entity, {})
    assert not limits
    assert not limits.replace(BOTH, {})


@pytest.mark.parametrize(
    ("key", "value", "stored"),
    [
        ("producer_byte_rate", 1024.0, "1024"),
        ("consumer_byte_rate", 1e15, "1000000000000000"),
        ("consumer_byte_rate", 10.0000001, "10"),
        ("request_percentage", 12.5, "12.5"),
        ("request_percentage", 200.0, "200.0"),
        ("controller_mutation_rate", 0.1, "0.1"),
    ],
)
def test_limits_are_stored_as_kafka_stored_them(key: str, value: float, stored: str) -> None:
    settings = changed_settings(QuotaEntity(ALICE), {"SCRAM-SHA-256": "s"}, {key: value})
    assert settings == {"SCRAM-SHA-256": "s", key: stored}
    limits, problems = read_limits(settings)
    assert not problems
    assert limits == {QuotaKind(key): pytest.approx(value)}


@pytest.mark.parametrize(
    ("entity", "key", "value", "text"),
    [
        (BOTH, "producer_byte_rates", 1.0, "Invalid configuration key producer_byte_rates"),
        (BOTH, "connection_creation_rate", 1.0, "Invalid configuration key"),
        (BOTH, "SCRAM-SHA-256", 1.0, "Invalid configuration key"),
        (QuotaEntity(ip="10.0.0.1"), "producer_byte_rate", 1.0, "Invalid configuration key"),
        (BOTH, "producer_byte_rate", 0.0, "must be greater than 0"),
        (BOTH, "request_percentage", -1.0, "must be greater than 0"),
        (BOTH, "request_percentage", float("nan"), "must be greater than 0"),
        (BOTH, "request_percentage", float("inf"), "finite"),
        (BOTH, "producer_byte_rate", 1.5, "cannot be a fractional value"),
        (BOTH, "producer_byte_rate", 1e19, "too large for a LONG"),
        (QuotaEntity(ip=DEFAULT), "connection_creation_rate", 2.0**31, "too large for an INT"),
    ],
)
def test_a_limit_that_makes_no_sense_is_refused(
    entity: QuotaEntity, key: str, value: float, text: str
) -> None:
    with pytest.raises(InvalidRequest, match=text):
        changed_settings(entity, {}, {key: value})


def test_removing_touches_only_limits() -> None:
    settings = {"SCRAM-SHA-256": "s", "producer_byte_rate": "1", "request_percentage": "2.0"}
    changes = dict.fromkeys(["producer_byte_rate", "SCRAM-SHA-256", "unknown"])
    assert changed_settings(QuotaEntity(ALICE), settings, changes) == {
        "SCRAM-SHA-256": "s",
        "request_percentage": "2.0",
    }


def test_settings_that_cannot_be_read_are_named_and_limit_nobody() -> None:
    for bad, name in product(["x", "-1", "0", "nan", "inf", ""], ["producer_byte_rate"]):
        limits, problems = read_limits({name: bad, "consumer_byte_rate": "5"})
        assert limits == {QuotaKind.FETCH: 5.0}
        assert len(problems) == 1
        assert name in problems[0]
