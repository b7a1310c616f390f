"""Kafka's own assignors, run in Java on the same random groups, give the same."""

import json
import os
from base64 import b64decode, b64encode
from typing import Any

import pytest

from barnabas.assignment.user_data import Claim, decode_sticky, encode_cooperative, encode_sticky
from barnabas.model.ids import TopicPartition
from tests.assignment.groups import ASSIGNORS, Group, random_group
from tests.support.java import Java

CASES = int(os.environ.get("CASES", "300"))
TIMEOUT_S = 300 + CASES


def _text(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()


def _line(assignor: str, group: Group) -> str:
    members = [
        {
            "member_id": member.member_id,
            "topics": member.topics,
            "instance_id": member.instance_id,
            "rack": member.rack,
            "owned": member.owned,
            "generation": member.generation,
            "user_data": _text(member.user_data),
        }
        for member in group.members
    ]
    topics = {
        name: {
            "partitions": topic.partitions,
            "topic_id": _text(topic.topic_id.bytes),
            "racks": [sorted(racks) for racks in topic.racks],
        }
        for name, topic in group.topics.items()
    }
    return json.dumps({"assignor": assignor, "members": members, "topics": topics})


def _ask(java: Java, lines: list[str]) -> list[Any]:
    done = java.run("Assign", stdin="\n".join(lines), timeout_s=TIMEOUT_S)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def kafka_s(java_client: Java) -> dict[str, list[Any]]:
    """By assignor, what Kafka's gives each of the groups: one process for all."""
    asked = [(assignor, seed) for assignor in ASSIGNORS for seed in range(CASES)]
    answers = _ask(java_client, [_line(name, random_group(seed, name)) for name, seed in asked])
    found: dict[str, list[Any]] = {assignor: [] for assignor in ASSIGNORS}
    for (assignor, _), answer in zip(asked, answers, strict=True):
        found[assignor].append(answer)
    return found


@pytest.mark.timeout(TIMEOUT_S + 600)
@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_assignments_are_kafka_s(kafka_s: dict[str, list[Any]], assignor: str) -> None:
    for seed, theirs in enumerate(kafka_s[assignor]):
        group = random_group(seed, assignor)
        ours = ASSIGNORS[assignor](group.members, group.topics)
        assert "answer" in theirs, f"seed {seed}: {theirs}"
        # Kafka leaves members out where there is nothing at all to assign.
        expected = {
            member_id: sorted(map(tuple, theirs["answer"].get(member_id, ()))) for member_id in ours
        }
        assert ours == expected, f"seed {seed}"


def test_user_data_is_written_as_kafka_s_client_writes_it(java_client: Java) -> None:
    one = tuple(TopicPartition("orders", partition) for partition in (5, 0, 2))
    many = (*one, TopicPartition("payments", 1), TopicPartition("clicks", 4))

    def written(name: str, owned: tuple[TopicPartition, ...]) -> bytes:
        asked = {"assignor": f"user data of {name}", "owned": owned, "generation": 42}
        (answer,) = _ask(java_client, [json.dumps(asked)])
        return b64decode(answer["answer"])

    assert written("cooperative-sticky", ()) == encode_cooperative(42)
    assert written("sticky", ()) == encode_sticky(Claim((), 42))
    assert written("sticky", one) == encode_sticky(Claim(one, 42))
    read = decode_sticky(written("sticky", many))
    assert (set(read.partitions), read.generation) == (set(many), 42)
