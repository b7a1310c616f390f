"""Which setting is in force, and what DescribeConfigs shows of it."""

import pytest

from barnabas.config import broker, kafka_options
from barnabas.config.alter import (
    Change,
    Operation,
    alter_broker,
    alter_topic,
    check_static,
    check_topic,
    without_effect,
)
from barnabas.config.broker import BrokerConfig
from barnabas.config.describe import describe_broker, describe_topic
from barnabas.config.properties import parse_properties
from barnabas.config.resolve import ConfigSource, Layers, Setting
from barnabas.config.topic import TopicConfig
from barnabas.config.unsupported import is_ignored, is_refused
from barnabas.model.errors import Code, InvalidRequest

SET, DELETE, APPEND, SUBTRACT = Operation


def test_the_nearer_setting_wins() -> None:
    static = {"log.segment.bytes": "1000"}
    for_all = {"log.segment.bytes": "2000"}
    for_one = {"log.segment.bytes": "3000"}
    assert TopicConfig().segment_bytes == 1 << 30
    assert TopicConfig({}, Layers(static)).segment_bytes == 1000
    assert TopicConfig({}, Layers(static, for_all)).segment_bytes == 2000
    assert TopicConfig({}, Layers(static, for_all, for_one)).segment_bytes == 3000
    own = TopicConfig({"segment.bytes": "4000"}, Layers(static, for_all, for_one))
    assert own.segment_bytes == 4000


@pytest.mark.parametrize(
    ("settings", "retention_ms"),
    [
        ({"log.retention.hours": "2"}, 7_200_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "1"}, 60_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "1", "log.retention.ms": "5"}, 5),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.ms": "-1"}, -1),
    ],
)
def test_the_finer_unit_of_retention_wins(settings: dict[str, str], retention_ms: int) -> None:
    assert TopicConfig({}, Layers(settings)).retention_ms == retention_ms


def test_a_topic_option_shows_all_places_where_it_is_set() -> None:
    layers = Layers({"message.max.bytes": "10"}, {"message.max.bytes": "20"})
    shown = {d.name: d for d in describe_topic({"max.message.bytes": "30"}, layers)}
    size = shown["max.message.bytes"]
    assert (size.text, size.source, size.read_only) == ("30", ConfigSource.DYNAMIC_TOPIC, False)
    assert size.synonyms == [
        Setting("max.message.bytes", "30", ConfigSource.DYNAMIC_TOPIC),
        Setting("message.max.bytes", "20", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        Setting("message.max.bytes", "10", ConfigSource.STATIC_BROKER),
        Setting("message.max.bytes", "1048588", ConfigSource.DEFAULT),
    ]
    assert shown["retention.ms"].source is ConfigSource.DEFAULT
    assert shown["retention.ms"].text == "604800000"
    assert shown["retention.ms"].synonyms == [
        Setting("log.retention.hours", "168", ConfigSource.DEFAULT)
    ]
    assert shown["remote.storage.enable"].text == "false"


def test_a_broker_option_that_needs_a_restart_is_shown_read_only() -> None:
    shown = {d.name: d for d in describe_broker(Layers({"broker.id": "7"}))}
    assert shown["node.id"].text == "7"
    assert shown["node.id"].source is ConfigSource.STATIC_BROKER
    assert shown["node.id"].read_only
    assert not shown["message.max.bytes"].read_only
    assert shown["log.retention.ms"].text is None


def test_a_wrong_name_is_refused_with_the_nearest_right_one() -> None:
    with pytest.raises(InvalidRequest, match=r"did you mean retention\.ms\?") as refused:
        check_topic({"retention.m": "1"})
    assert refused.value.code is Code.INVALID_CONFIG
    with pytest.raises(InvalidRequest, match=r"unknown broker option 'xyzzy'$"):
        check_static({"xyzzy": "1"})


def test_what_is_not_implemented_accepts_its_default_alone() -> None:
    assert check_topic({"remote.storage.enable": "false"}) == {"remote.storage.enable": "false"}
    with pytest.raises(InvalidRequest, match="Barnabas does not implement"):
        check_topic({"remote.storage.enable": "true"})
    with pytest.raises(InvalidRequest, match=r"Kafka 4\.0 removed it"):
        check_topic({"message.format.version": "2.8"})


def test_a_topic_option_without_a_value_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="no value given"):
        check_topic({"retention.ms": None})


def test_limits_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(InvalidRequest, match=r"min\.compaction\.lag\.ms = 10 is larger"):
        check_topic({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"})


IGNORED = {"num.io.threads": "8", "log.cleaner.threads": "2", "metric.reporters": "a,b"}


def test_one_rule_says_what_becomes_of_an_option_at_start_and_when_altered() -> None:
    changes = [Change(name, SET, text) for name, text in IGNORED.items()]
    assert check_static(IGNORED) == alter_broker({}, changes) == IGNORED
    assert [name for name, _ in without_effect({**IGNORED, "num.partitions": "4"})] == [*IGNORED]
    for name in [
        "create.topic.policy.class.name",
        "ssl.engine.factory.class",
        "sasl.kerberos.kinit.cmd",
    ]:
        with pytest.raises(InvalidRequest, match=f"{name}: leave it out") as at_start:
            check_static({name: "x"})
        with pytest.raises(InvalidRequest) as altered:
            alter_broker({}, [Change(name, SET, "x")])
        assert altered.value.detail == at_start.value.detail


def test_an_option_without_effect_has_its_type_all_the_same() -> None:
    for settings in ({"num.io.threads": "many"}, {"controlled.shutdown.enable": "maybe"}):
        with pytest.raises(InvalidRequest, match="expected"):
            check_static(settings)
    with pytest.raises(InvalidRequest, match="cannot change while the broker runs"):
        alter_broker({}, [Change("fetch.purgatory.purge.interval.requests", SET, "2")])
    assert check_static({"zookeeper.sync.time.ms": "x"})  # of old Kafkas


def test_options_that_do_nothing_are_named_unless_they_have_their_default() -> None:
    assert [name for name, _ in without_effect({"queued.max.requests": "9"})] == [
        "queued.max.requests"
    ]
    assert not list(without_effect({"queued.max.requests": "500"}))


def test_every_option_of_kafkas_is_described_with_what_it_is_here() -> None:
    shown = {each.name: each for each in describe_broker(Layers({"num.io.threads": "9"}))}
    assert list(shown) == sorted(shown)
    assert not set(kafka_options.OPTIONS) & set(broker.OPTIONS)
    assert all(is_ignored(name) or is_refused(name) for name in kafka_options.OPTIONS)
    threads = shown["num.io.threads"]
    assert (threads.text, threads.source, threads.type) == ("9", ConfigSource.STATIC_BROKER, 3)
    assert "No effect: One event loop" in threads.doc
    password = shown["sasl.oauthbearer.client.credentials.client.secret"]
    assert password.sensitive
    assert "Not supported:" in password.doc
    assert all(each.doc for each in shown.values())


def test_changes_set_delete_append_and_subtract() -> None:
    current = {"retention.ms": "5", "cleanup.policy": "compact"}
    changes = [
        Change("retention.ms", DELETE),
        Change("cleanup.policy", APPEND, "delete,compact"),
        Change("segment.bytes", SET, "1000"),
    ]
    assert alter_topic(current, changes) == {
        "cleanup.policy": "compact,delete",
        "segment.bytes": "1000",
    }
    assert current["retention.ms"] == "5"
    assert alter_topic({}, [Change("cleanup.policy", APPEND, "compact")]) == {
        "cleanup.policy": "delete,compact"
    }
    assert alter_topic(current, [Change("cleanup.policy", SUBTRACT, "compact")]) == {
        "retention.ms": "5",
        "cleanup.policy": "",
    }


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ([Change("retention.ms", APPEND, "1")], "not a list"),
        ([Change("retention.ms", SET, "1"), Change("retention.ms", DELETE)], "changed twice"),
        ([Change("retention.ms", SET)], "no value given"),
        ([Change("retention.ms", SET, "-2")], "-1 or more"),
    ],
)
def test_a_change_that_makes_no_sense_is_refused(changes: list[Change], reason: str) -> None:
    with pytest.raises(InvalidRequest, match=reason):
        alter_topic({}, changes)


def test_a_running_broker_takes_only_what_needs_no_restart() -> None:
    assert alter_broker({}, [Change("message.max.bytes", SET, "9")]) == {"message.max.bytes": "9"}
    with pytest.raises(InvalidRequest, match="set it at start"):
        alter_broker({}, [Change("node.id", SET, "9")])


def test_clients_never_get_the_address_of_all_interfaces() -> None:
    with pytest.raises(InvalidRequest, match="name a host they can reach"):
        BrokerConfig({"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"})


def test_log_dir_is_used_when_log_dirs_is_unset() -> None:
    assert BrokerConfig({"log.dir": "/a"}).directories == ("/a",)
    assert BrokerConfig({"log.dir": "/a", "log.dirs": "/b,/c"}).directories == ("/b", "/c")


def test_properties_files_are_read_as_java_reads_them() -> None:
    text = (
        "# comment\n! another\n\nnode.id=1\r\nlisteners : PLAINTEXT://:9092\n"
        "log.dirs=/a,\\\n   /b\nempty=\nspaced   value here \nuni=\\u0041\\t\\=\nnode.id = 2\n"
    )
    assert parse_properties(text) == {
        "node.id": "2",
        "listeners": "PLAINTEXT://:9092",
        "log.dirs": "/a,/b",
        "empty": "",
        "spaced": "value here",
        "uni": "A\t=",
    }


def test_a_line_without_a_name_is_refused_by_number() -> None:
    with pytest.raises(InvalidRequest, match="line 2"):
        parse_properties("a=1\n=2\n")
