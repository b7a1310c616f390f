"""The assignor of share groups."""

from collections import Counter
from collections.abc import Mapping
from random import Random

from barnabas.assignment.group import Assignment, GroupSubscriber
from barnabas.assignment.simple import AssignablePartitions, assign_simple
from barnabas.model.ids import TopicPartition
from tests.share import run_seeds, some


def assigned(
    members: Mapping[str, tuple[str, ...]],
    partitions: AssignablePartitions,
    before: Assignment | None = None,
) -> Assignment:
    owned = before or {}
    subscribers = [
        GroupSubscriber(name, topics, owned=tuple(owned.get(name, ())))
        for name, topics in members.items()
    ]
    return assign_simple(subscribers, partitions)


def numbers(assignment: Assignment) -> dict[str, list[int]]:
    return {member: [number for _, number in own] for member, own in assignment.items()}


def test_more_members_than_partitions_share_them() -> None:
    members = dict.fromkeys("abcde", ("t",))
    assert numbers(assigned(members, {"t": [0, 1]})) == {
        "a": [0, 1], "b": [0], "c": [0], "d": [1], "e": [1],
    }  # fmt: skip


def test_more_partitions_than_members_are_spread() -> None:
    members = dict.fromkeys("ab", ("t", "u"))
    found = assigned(members, {"t": [0, 1, 2], "u": [0]})
    assert {member: len(own) for member, own in found.items()} == {"a": 2, "b": 2}


def test_a_member_keeps_what_balance_allows() -> None:
    before = assigned({"a": ("t",)}, {"t": [0, 1, 2, 3]})
    after = assigned(dict.fromkeys("ab", ("t",)), {"t": [0, 1, 2, 3]}, before)
    assert len(set(after["a"]) & set(before["a"])) == 2
    assert not set(after["a"]) & set(after["b"])


def test_members_get_only_topics_that_they_subscribe_to() -> None:
    members = {"a": ("t",), "b": ("t", "u"), "c": ("missing",)}
    found = assigned(members, {"t": [0], "u": [0, 1]})
    assert found == {
        "a": [TopicPartition("t", 0)],
        "b": [TopicPartition("t", 0), TopicPartition("u", 0), TopicPartition("u", 1)],
        "c": [],
    }


def check_history(seed: int) -> None:
    random = Random(seed)
    partitions = {f"t{n}": list(range(random.randint(0, 8))) for n in range(random.randint(1, 3))}
    are_alike = random.random() < 0.5
    members: dict[str, tuple[str, ...]] = {}
    current: Assignment = {}
    for step in range(8):
        if random.random() < 0.7 or not members:
            topics = sorted(partitions)
            chosen = topics if are_alike else random.sample(topics, random.randint(1, len(topics)))
            members[f"m{step}"] = tuple(chosen)
        else:
            del members[random.choice(sorted(members))]
        if random.random() < 0.2:
            grown = partitions[random.choice(sorted(partitions))]
            grown.append(len(grown))
        current = assigned(members, partitions, current)
        counts = Counter(each for own in current.values() for each in own)
        for name, topics_of in members.items():
            assert len(set(current[name])) == len(current[name])
            assert all(each.topic in topics_of for each in current[name])
            assert bool(current[name]) == any(partitions[topic] for topic in topics_of)
            for topic in topics_of:
                assert all(counts[TopicPartition(topic, n)] for n in partitions[topic])
        if are_alike and counts:
            assert max(counts.values()) - min(counts.values()) <= 1
            assert assigned(members, partitions, current) == current, "it moves without a reason"


def test_every_partition_has_a_member_and_every_member_a_partition() -> None:
    run_seeds(check_history, some(range(1_001)))
