"""Users of SCRAM: the same requests to Barnabas and to Apache Kafka have the same answers."""

import time
from collections.abc import Iterable
from typing import Any

from barnabas.security.sasl.credentials import HASHES
from barnabas.security.sasl.mechanism import SCRAM_SHA_256, SCRAM_SHA_512
from barnabas.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from barnabas.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from tests.support.caller import Caller
from tests.waiting import WAIT_S

UNKNOWN, SHA_256, SHA_512 = range(3)
Change = ScramCredentialUpsertion | ScramCredentialDeletion
SALT = b"0123456789abcdef"


def put(user: str, mechanism: int = SHA_256, iterations: int = 4096) -> ScramCredentialUpsertion:
    """Salts and salted passwords of a wrong length we refuse, and Kafka does not."""
    hash_ = HASHES[SCRAM_SHA_512 if mechanism == SHA_512 else SCRAM_SHA_256]
    salted = hash_.salted("secret", SALT, 4096)
    return ScramCredentialUpsertion(
        name=user, mechanism=mechanism, iterations=iterations, salt=SALT, salted_password=salted
    )


def delete(user: str, mechanism: int = SHA_256) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=user, mechanism=mechanism)


def alter(caller: Caller, *changes: Change) -> list[tuple[str, int]]:
    request = AlterUserScramCredentialsRequest(
        deletions=[each for each in changes if isinstance(each, ScramCredentialDeletion)],
        upsertions=[each for each in changes if isinstance(each, ScramCredentialUpsertion)],
    )
    answer: Any = caller.ask(request, 0)
    return sorted((each.user, each.error_code) for each in answer.results)


def describe(caller: Caller, users: Iterable[str] | None) -> list[Any]:
    names = None if users is None else [UserName(name=each) for each in users]
    answer: Any = caller.ask(DescribeUserScramCredentialsRequest(users=names), 0)
    assert not answer.error_code
    return sorted(
        (
            each.user,
            each.error_code,
            sorted((info.mechanism, info.iterations) for info in each.credential_infos),
        )
        for each in answer.results
    )


def await_same(us: Caller, them: Caller, users: Iterable[str] | None) -> list[Any]:
    """Kafka's brokers learn of a change a little later than its controller."""
    deadline = time.monotonic() + WAIT_S
    while (ours := describe(us, users)) != (theirs := describe(them, users)):
        assert time.monotonic() < deadline, (ours, theirs)
        time.sleep(0.02)
    return ours


REQUESTS: dict[str, list[Change]] = {
    "a new user": [put("alice")],
    "a second mechanism": [put("alice", SHA_512, 8192)],
    "other iterations": [put("alice", SHA_256, 16_384)],
    "too few iterations": [put("alice", SHA_256, 4095)],
    "too many iterations": [put("alice", SHA_256, 16_385)],
    "no iterations": [put("bob", SHA_256, 0)],
    "fewer than no iterations": [put("bob", SHA_256, -1)],
    "no name": [put("")],
    "an unknown mechanism": [put("bob", UNKNOWN)],
    "a mechanism of the future": [put("bob", 3)],
    "a mechanism below all": [put("bob", -1)],
    "one user twice": [put("bob"), put("bob", SHA_512), put("carol")],
    "one user and mechanism twice": [put("bob"), put("bob")],
    "made and deleted in one request": [put("bob"), delete("bob"), put("carol")],
    "deleted and made in one request": [delete("carol"), put("carol")],
    "bad, then good": [put("bob", iterations=1), put("bob"), put("", 3), put("")],
    "good, then bad": [put("bob"), put("bob", iterations=1), put("bob", 3)],
    "deleted twice": [delete("carol"), delete("carol")],
    "delete nobody": [delete("nobody")],
    "delete a mechanism that is not there": [delete("carol", SHA_512)],
    "delete an unknown mechanism": [delete("alice", UNKNOWN)],
    "delete no name": [delete("")],
    "good and bad": [put("dave"), put("erin", iterations=1), delete("nobody"), put("frank", 3)],
    "odd names": [put("a,b=c"), put("ü/☃"), put(".."), put("a b+%*"), put("<default>")],
    "nothing": [],
    "deletions": [delete("alice"), delete("alice2"), delete("dave")],
}


def test_changes_are_accepted_and_refused_as_by_kafka(us: Caller, them: Caller) -> None:
    """In this order, as later ones are about the users of earlier ones."""
    users: set[str] = set()
    for name, changes in REQUESTS.items():
        assert alter(us, *changes) == alter(them, *changes), name
        users |= {each.name for each in changes}
        await_same(us, them, None)
    found = await_same(us, them, sorted(users - {""}))
    assert ("alice", 0, [(SHA_512, 8192)]) in found
    for asked in (
        ["alice", "alice"],
        ["alice", "nobody", "alice", "carol"],
        ["nobody"],
        [""],
        ["", ""],
        [],
    ):
        await_same(us, them, asked)
