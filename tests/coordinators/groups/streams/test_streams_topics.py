"""The topics of a topology: how many partitions, which are missing, what is wrong."""

import pytest

from barnabas.assignment.group import AssignableTopic
from barnabas.coordinators.groups.streams.topics import (
    TASKS_MAX,
    ConfiguredTopology,
    StreamsStatus,
    configure,
)
from barnabas.coordinators.groups.streams.topology import check_topology, from_record, recorded
from barnabas.model.errors import Code, KafkaError
from barnabas.wire.messages.streams_group_heartbeat import CopartitionGroup, Subtopology, Topology
from tests.coordinators.groups.streams.streams_world import info, subtopology, topology
from tests.coordinators.world import Cluster


def configured(topics: dict[str, int], *parts: Subtopology) -> ConfiguredTopology:
    sent = topology(*parts)
    check_topology(sent, 1_000_000)
    return configure(from_record(recorded(sent)), Cluster(topics))


def partitions(found: ConfiguredTopology) -> dict[str, int]:
    return {topic.name: topic.partitions for topic in found.missing}


def problem(found: ConfiguredTopology) -> StreamsStatus | None:
    return None if found.problem is None else found.problem.status


def test_a_missing_source_topic_is_named() -> None:
    found = configured({}, subtopology("0", ["t", "u"]))
    assert problem(found) is StreamsStatus.MISSING_SOURCE_TOPICS
    assert found.problem is not None
    assert "t, u" in found.problem.detail
    assert not found.missing


def test_a_changelog_has_as_many_partitions_as_there_are_tasks() -> None:
    found = configured({"t": 2, "u": 5}, subtopology("0", ["t", "u"], changelogs=("log",)))
    assert problem(found) is StreamsStatus.MISSING_INTERNAL_TOPICS
    assert partitions(found) == {"log": 5}
    assert found.missing[0].settings == {"cleanup.policy": "compact"}
    assert found.subtopologies["0"].tasks == 5


def test_a_repartition_topic_has_as_many_as_its_largest_source() -> None:
    found = configured(
        {"t": 3},
        subtopology("0", ["t"], sinks=("r",)),
        subtopology("1", [], repartitions={"r": 0}, sinks=("s",), changelogs=("log",)),
        subtopology("2", [], repartitions={"s": 0}),
    )
    assert partitions(found) == {"r": 3, "log": 3, "s": 3}
    assert [part.tasks for part in found.subtopologies.values()] == [3, 3, 3]


def test_a_number_of_partitions_may_be_chosen() -> None:
    found = configured(
        {"t": 3}, subtopology("0", ["t"], sinks=("r",)), subtopology("1", [], repartitions={"r": 7})
    )
    assert partitions(found) == {"r": 7}
    assert found.subtopologies["1"].tasks == 7


def test_a_topic_that_is_written_where_it_is_read_is_counted_by_the_other_sources() -> None:
    found = configured({"t": 3}, subtopology("0", ["t"], repartitions={"r": 0}, sinks=("r",)))
    assert partitions(found) == {"r": 3}


class Looked(Cluster):
    """Counts how often topics are looked up."""

    looks = 0

    def find(self, name: str) -> AssignableTopic | None:
        self.looks += 1
        return super().find(name)


@pytest.mark.parametrize("loops", [False, True], ids=["a chain", "a chain of loops"])
def test_a_chain_in_the_worst_order_is_counted_without_passes_over_all(*, loops: bool) -> None:
    length = 300
    parts = [
        subtopology(
            f"{length - step:03}",
            [] if step else ["t"],
            repartitions=({f"r{step}": 0} if step else {})
            | ({f"r{step + 1}-again": 0} if loops else {}),
            sinks=(f"r{step + 1}", f"r{step + 1}-again"),
        )
        for step in range(length)
    ]
    parts.append(subtopology("last", [], repartitions={f"r{length}": 0}))
    sent = topology(*parts)
    check_topology(sent, 1_000_000)
    topics = Looked({"t": 3})
    found = configure(from_record(recorded(sent)), topics)
    assert found.subtopologies["last"].tasks == 3
    assert topics.looks < 20 * length


def test_a_joined_repartition_topic_gets_the_number_of_the_source_topic() -> None:
    found = configured(
        {"t": 2, "names": 6},
        subtopology("0", ["t"], sinks=("r",)),
        subtopology("1", ["names"], repartitions={"r": 0}, together=True),
    )
    assert partitions(found) == {"r": 6}


def test_joined_repartition_topics_get_the_largest_number() -> None:
    found = configured(
        {"t": 2, "u": 6},
        subtopology("0", ["t"], sinks=("r",)),
        subtopology("1", ["u"], sinks=("s",)),
        subtopology("2", [], repartitions={"r": 0, "s": 0}, together=True),
    )
    assert partitions(found) == {"r": 6, "s": 6}


@pytest.mark.parametrize(
    "part",
    [
        subtopology("1", ["t", "u"], together=True),
        subtopology("1", ["t"], repartitions={"r": 9}, together=True),
        subtopology("1", [], repartitions={"r": 9, "s": 8}, together=True),
    ],
)
def test_topics_that_are_joined_need_equally_many_partitions(part: Subtopology) -> None:
    writer = subtopology("0", ["w"], sinks=("r", "s"))
    found = configured({"t": 2, "u": 3, "w": 2}, writer, part)
    assert problem(found) is StreamsStatus.INCORRECTLY_PARTITIONED_TOPICS
    assert not found.missing


def test_of_many_joined_topics_only_a_few_are_named() -> None:
    topics = {f"{number:0200}": number for number in range(1, 200)}
    found = configured(topics, subtopology("0", list(topics), together=True))
    assert found.problem is not None
    assert found.problem.detail.endswith(" has 3 and 196 more")


def test_an_internal_topic_with_another_number_of_partitions_is_wrong() -> None:
    found = configured({"t": 4, "log": 3}, subtopology("0", ["t"], changelogs=("log",)))
    assert problem(found) is StreamsStatus.INCORRECTLY_PARTITIONED_TOPICS
    assert configured({"t": 4, "log": 4}, subtopology("0", ["t"], changelogs=("log",))).is_ready


@pytest.mark.parametrize(
    "parts",
    [
        [subtopology("0", [], repartitions={"r": 0})],
        [subtopology("0", [], repartitions={"r": 0}, sinks=("r",))],
        [
            subtopology("0", ["t"], sinks=("r",)),
            subtopology("1", [], repartitions={"r": TASKS_MAX}),
        ],
    ],
    ids=["nobody writes it", "a loop", "too many tasks"],
)
def test_a_topology_without_an_answer_is_refused(parts: list[Subtopology]) -> None:
    with pytest.raises(KafkaError) as caught:
        configured({"t": 4}, *parts)
    assert caught.value.code is Code.STREAMS_INVALID_TOPOLOGY


def _outside() -> Subtopology:
    group = CopartitionGroup(source_topics=[1], source_topic_regex=[], repartition_source_topics=[])
    part = subtopology("0", ["t"])
    part.copartition_groups.append(group)
    return part


def _numbered_changelog() -> Subtopology:
    part = subtopology("0", ["t"])
    part.state_changelog_topics.append(info("log", 3))
    return part


@pytest.mark.parametrize(
    "sent",
    [
        topology(subtopology("0", ["t"]), epoch=-1),
        topology(subtopology("0", ["t"]), subtopology("0", ["u"])),
        topology(subtopology("0", [])),
        topology(subtopology("0", ["no/name"])),
        topology(subtopology("0", ["t"], changelogs=("__consumer_offsets",))),
        topology(subtopology("0", ["t"], repartitions={"r": -1})),
        topology(_outside()),
        topology(_numbered_changelog()),
        topology(*(subtopology(str(n), [f"t{n}"]) for n in range(1_001))),
        topology(subtopology("0", [f"{n:0249}" for n in range(5_000)])),
        topology(subtopology("0", ["t", "t"])),
        topology(subtopology("0", ["t"]), subtopology("1", ["t"])),
        topology(subtopology("0", ["t"], repartitions={"t": 0})),
        topology(subtopology("0", ["t"], repartitions={"r": 0}), subtopology("1", ["r"])),
    ],
    ids=range(14),
)
def test_a_topology_that_cannot_be_is_refused(sent: Topology) -> None:
    with pytest.raises(KafkaError) as caught:
        check_topology(sent, 1_000_000)
    assert caught.value.code is Code.STREAMS_INVALID_TOPOLOGY
