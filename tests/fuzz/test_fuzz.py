"""Damaged requests never hurt the broker; `make fuzz REQUESTS=1000000` for more of them."""

from random import Random
from struct import unpack_from

import pytest

from barnabas.client.admin.security import Acl
from barnabas.model.errors import KafkaError
from barnabas.wire.apis import APIS
from barnabas.wire.frames import read_request_header
from tests.fuzz import corpus
from tests.fuzz.generate import Generator
from tests.fuzz.locked import FEW, SECRET, fuzz_locked
from tests.fuzz.replies import Unfit, check
from tests.fuzz.run import MIB, check_flat, fuzz
from tests.fuzz.watch import Broken
from tests.share import SEED

REQUESTS = 20_000
REQUESTS_LOCKED = 5_000


def test_no_damaged_request_crashes_the_broker_fills_its_memory_or_starves_others() -> None:
    figures = fuzz(REQUESTS, SEED, say=lambda _: None)
    check_flat(figures.rss)
    assert figures.requests >= REQUESTS


@pytest.mark.parametrize("logged_in", [False, True], ids=["before a login", "with few rights"])
def test_no_damaged_request_learns_or_changes_what_the_rules_hide(logged_in: bool) -> None:
    figures = fuzz_locked(REQUESTS_LOCKED, SEED, lambda _: None, logged_in=logged_in)
    check_flat(figures.rss)
    assert figures.requests >= REQUESTS_LOCKED
    assert not logged_in or figures.logins > figures.connections / 2


@pytest.mark.parametrize(
    "rule",
    [
        Acl("topic", SECRET, f"User:{FEW}", "describe"),
        Acl("group", "canary-group", f"User:{FEW}", "describe"),
        Acl("transactional_id", "canary-transaction", f"User:{FEW}", "describe"),
        Acl("cluster", "kafka-cluster", f"User:{FEW}", "describe"),
    ],
    ids=lambda rule: rule.resource,
)
def test_one_right_too_many_is_found(rule: Acl) -> None:
    with pytest.raises(Broken, match="which is hidden"):
        fuzz_locked(REQUESTS, SEED, lambda _: None, logged_in=True, more_rules=[rule])


def test_the_corpus_is_made_of_requests_that_decode() -> None:
    frames = corpus.load()
    assert len(frames) > 100
    for frame in frames:
        key, version = unpack_from(">hh", frame)
        api = APIS[key]
        if version > api.max_version:  # a client newer than we are, asking what we speak
            continue
        api.request.decode(frame, version, read_request_header(frame).body_position)


def test_the_corpus_has_every_request_about_groups() -> None:
    heard = {unpack_from(">h", frame)[0] for frame in corpus.load()}
    about_groups = {8, 9, 10, 11, 12, 13, 14, 15, 16, 42, 47, 68, 69}
    assert not about_groups - heard


def test_generated_requests_decode_and_repeat_from_their_seed() -> None:
    versions = {key: (api.min_version, api.max_version) for key, api in APIS.items()}
    made = [Generator(Random(3), versions, []) for _ in range(2)]
    for _ in range(500):
        frame = made[0].request()
        assert frame == made[1].request()
        key, version = unpack_from(">hh", frame)
        try:
            APIS[key].request.decode(frame, version, read_request_header(frame).body_position)
        except KafkaError as error:
            raise AssertionError(f"{APIS[key].name} version {version}: {error}") from error


def test_a_reply_out_of_order_or_out_of_shape_is_seen() -> None:
    api_versions = bytes.fromhex("0000000a 0012 0000 00000007 ffff")
    heartbeat = bytes.fromhex("0000000a 000c 0000 00000008 ffff")
    answer = bytes.fromhex("0000000a 00000007 0000 00000000")
    assert check(api_versions, answer, whole=True, deep=True) == 1
    assert check(api_versions, b"", whole=True, deep=True) == 1
    with pytest.raises(Unfit, match="was to be answered"):
        check(heartbeat + api_versions, answer, whole=True, deep=True)
    with pytest.raises(Unfit, match="to no request"):
        check(api_versions, answer + answer, whole=True, deep=True)
    with pytest.raises(Unfit, match="of which"):
        check(api_versions, answer[:-1], whole=True, deep=True)
    with pytest.raises(Unfit, match="does not decode"):
        check(api_versions, bytes.fromhex("00000004 00000007"), whole=True, deep=True)


def test_memory_that_keeps_growing_is_seen() -> None:
    check_flat([50 * MIB] * 20)
    check_flat([50 * MIB + 10 * MIB * min(step, 5) for step in range(20)])
    with pytest.raises(Broken, match="memory grew"):
        check_flat([50 * MIB + 3 * MIB * step for step in range(20)])
