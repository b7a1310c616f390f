"""Whom a quota is for: what a request may name, and where its settings are."""

import pytest

from barnabas.model.errors import Code, InvalidRequest
from barnabas.security.quotas.entities import (
    DEFAULT,
    QuotaEntity,
    entity_of,
    entity_stored_at,
)

ENTITIES = [
    QuotaEntity("alice"),
    QuotaEntity(DEFAULT),
    QuotaEntity("alice", "app"),
    QuotaEntity("alice", DEFAULT),
    QuotaEntity(DEFAULT, "app"),
    QuotaEntity(DEFAULT, DEFAULT),
    QuotaEntity(client_id="app"),
    QuotaEntity(client_id=DEFAULT),
    QuotaEntity(ip="10.0.0.1"),
    QuotaEntity(ip=DEFAULT),
]


@pytest.mark.parametrize("entity", ENTITIES, ids=str)
def test_an_entity_is_the_same_on_the_wire_and_in_the_keeper(entity: QuotaEntity) -> None:
    assert entity_of(entity.pairs()) == entity
    assert entity_stored_at(*entity.stored_at()) == entity


def test_no_two_entities_share_their_settings() -> None:
    assert len({entity.stored_at() for entity in ENTITIES}) == len(ENTITIES)


def test_a_user_called_like_the_default_is_not_the_default() -> None:
    assert entity_of([("user", "<default>")]) != entity_of([("user", None)])


def test_an_address_has_one_spelling() -> None:
    mapped = entity_of([("ip", "::ffff:10.0.0.1")])
    assert mapped == entity_of([("ip", "10.0.0.1")])
    assert entity_of([("ip", "0:0:0:0:0:0:0:1")]) == QuotaEntity(ip="::1")


@pytest.mark.parametrize(
    ("pairs", "text"),
    [
        ([], "Invalid empty client quota entity"),
        ([("group", "g")], "Unhandled client quota entity type: group"),
        ([("user", "")], "Empty user not supported"),
        ([("user", "a"), ("user", "b")], "duplicate entity entry user"),
        ([("ip", "10.0.0.1"), ("user", "a")], "should not be combined"),
        ([("ip", "broker.example")], "not a valid IP address"),
        ([("client-id", "c" * 301)], "at most 300 bytes"),
        ([("user", "a\0b")], "no NUL"),
    ],
)
def test_an_entity_that_makes_no_sense_is_refused_by_name(
    pairs: list[tuple[str, str | None]], text: str
) -> None:
    with pytest.raises(InvalidRequest, match=text) as error:
        entity_of(pairs)
    assert error.value.code is Code.INVALID_REQUEST
