"""Topics that ask for a table are found with few requests; one that cannot be read hides none."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.client.blocking.admin import Admin
from barnabas.model.errors import Code, InvalidRequest
from barnabas.pipeline.managed import lake_topics
from barnabas.pipeline.managed.lake_topics import LakeTopics, Rotation
from tests.process import running_broker


def test_new_names_come_first_then_those_that_waited_longest() -> None:
    rotation = Rotation(2)
    assert rotation.due(["a", "b", "c"]) == ["a", "b"]
    assert rotation.due(["a", "b", "c", "d"]) == ["c", "d"]
    assert rotation.due(["a", "b", "c", "d"]) == ["a", "b"]
    assert rotation.due(["c", "e"]) == ["e", "c"]
    assert rotation.due([]) == []


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[str]:
    with running_broker(tmp_path) as running:
        yield running.bootstrap_servers


def test_a_look_asks_about_a_limited_number_of_topics(
    servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lake_topics, "TOPICS_PER_LOOK", 2)
    with Admin({"bootstrap.servers": servers}) as admin:
        for name in ("a", "b", "c"):
            admin.create_topic(name, configs={"lake": "delta"} if name != "b" else {})
        topics = LakeTopics({"bootstrap.servers": servers}, print)
        try:
            assert list(topics.asking()) == ["a"]
            assert sorted(topics.asking()) == ["a", "c"]
            admin.alter_topic("a", reset=["lake"])
            admin.delete_topic("c")
            topics.asking()
            assert topics.asking() == {}
        finally:
            topics.close()


def test_options_of_many_topics_come_with_the_errors_of_single_ones(servers: str) -> None:
    with Admin({"bootstrap.servers": servers}) as admin:
        admin.create_topic("there", configs={"lake": "iceberg"})
        found = admin.topics_options(["there", "missing"], ["lake", "lake.lag.ms"])
    assert found["there"] == {"lake": "iceberg"}
    assert isinstance(found["missing"], InvalidRequest)
    assert found["missing"].code is Code.UNKNOWN_TOPIC_OR_PARTITION
