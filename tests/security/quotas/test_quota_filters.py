"""Which entities a request to describe quotas gets."""

import pytest

from barnabas.model.errors import Code, InvalidRequest
from barnabas.security.quotas.entities import DEFAULT, QuotaEntity
from barnabas.security.quotas.quota_filters import (
    ANY_NAME,
    DEFAULT_NAME,
    EXACT,
    quota_filter,
)

USER, DEFAULT_USER = QuotaEntity("alice"), QuotaEntity(DEFAULT)
PAIR, HALF = QuotaEntity("alice", "app"), QuotaEntity("alice", DEFAULT)
CLIENT, ADDRESS = QuotaEntity(client_id="app"), QuotaEntity(ip="::1")
ALL = [USER, DEFAULT_USER, PAIR, HALF, CLIENT, ADDRESS]

Component = tuple[str, int, str | None]


@pytest.mark.parametrize(
    ("components", "strict", "expected"),
    [
        ([], False, ALL),
        ([], True, []),
        ([("user", ANY_NAME, None)], False, [USER, DEFAULT_USER, PAIR, HALF]),
        ([("user", ANY_NAME, None)], True, [USER, DEFAULT_USER]),
        ([("user", EXACT, "alice")], False, [USER, PAIR, HALF]),
        ([("user", EXACT, "alice")], True, [USER]),
        ([("user", EXACT, "")], False, []),
        ([("user", DEFAULT_NAME, None)], False, [DEFAULT_USER]),
        ([("user", EXACT, "alice"), ("client-id", DEFAULT_NAME, None)], True, [HALF]),
        ([("client-id", ANY_NAME, None)], False, [PAIR, HALF, CLIENT]),
        ([("ip", EXACT, "0:0:0:0:0:0:0:1")], True, [ADDRESS]),
        ([("ip", DEFAULT_NAME, None)], True, []),
    ],
)
def test_a_filter_finds(
    components: list[Component], strict: bool, expected: list[QuotaEntity]
) -> None:
    wanted = quota_filter(components, strict=strict)
    assert [entity for entity in ALL if wanted.matches(entity)] == expected


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([("", EXACT, "a")], Code.INVALID_REQUEST),
        ([("topic", EXACT, "a")], Code.UNSUPPORTED_VERSION),
        ([("user", EXACT, None)], Code.INVALID_REQUEST),
        ([("user", DEFAULT_NAME, "a")], Code.INVALID_REQUEST),
        ([("user", ANY_NAME, "a")], Code.INVALID_REQUEST),
        ([("user", 3, None)], Code.INVALID_REQUEST),
        ([("user", EXACT, "a"), ("user", EXACT, "b")], Code.INVALID_REQUEST),
        ([("user", EXACT, "a"), ("ip", EXACT, "::1")], Code.INVALID_REQUEST),
    ],
)
def test_a_filter_that_makes_no_sense_is_refused(components: list[Component], code: Code) -> None:
    with pytest.raises(InvalidRequest) as error:
        quota_filter(components, strict=False)
    assert error.value.code is code
