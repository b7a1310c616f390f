"""Every mistake in a spec is one line that names the key, the value and the remedy."""

from pathlib import Path
from typing import Any

import pytest

from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.run.spec import Spec, SpecError, load, parse

ICEBERG: dict[str, Any] = {
    "sink__format": "iceberg",
    "sink__path": None,
    "sink__table": "sales.orders",
    "sink__catalog": {"type": "sql", "uri": "sqlite:////c.db"},
}


def document(**changed: Any) -> dict[str, Any]:
    given: dict[str, Any] = {
        "name": "orders-lake",
        "kind": "lake",
        "source": {
            "servers": "h:9092",
            "topics": ["orders"],
            "format": "json",
            "schema": "id long",
        },
        "sink": {"path": "/lake"},
        "run": {"checkpoint": "/checkpoint"},
    }
    for key, value in changed.items():
        section, _, name = key.partition("__")
        if name:
            given.setdefault(section, {})[name] = value
        else:
            given[section] = value
    return given


def mistakes(given: object) -> list[str]:
    with pytest.raises(SpecError) as caught:
        parse(given)
    return str(caught.value).splitlines()


def test_what_is_left_out_has_a_sensible_value() -> None:
    spec = parse(document())
    assert spec.source.group == "orders-lake"
    assert spec.source.starting == "earliest"
    assert spec.sink.partition_by == ("date",)
    assert spec.delivery == "exactly_once"
    assert (spec.run.master, spec.run.interval_ms) == ("local[*]", None)


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"nam": "x"}, "nam: 'x': no such key; did you mean name?"),
        ({"kind": "laek"}, "kind: 'laek': use stream or lake or mirror; did you mean lake?"),
        ({"name": "a b"}, "name: 'a b': use letters"),
        ({"name": ".."}, "name: '..': use letters"),
        ({"errors": {"dlq": "orders"}}, "errors.dlq: 'orders': it is also a source, so bad rows"),
        ({"errors": {"dlq": "a/b"}}, "errors.dlq: 'a/b'"),
        (
            {"errors": {"dlq": "d", "retries": 1, "retry_topic": "d"}},
            "errors.dlq: 'd': it is the retry topic: name another",
        ),
        (
            {"source__topics": None, "source__pattern": "^o", "errors": {"dlq": "orders.dlq"}},
            "errors.dlq: 'orders.dlq': it is also a source, so bad rows would be read again",
        ),
        (
            {"source__options": {"maxOfsetsPerTrigger": 5}},
            "source.options.maxOfsetsPerTrigger: '5': the source has no such option; did you mean"
            " maxOffsetsPerTrigger?",
        ),
        (
            {"sink__format": "delta", "sink__path": "/a[1]"},
            "sink.path: '/a[1]': delta-rs cannot open paths with '['",
        ),
        (
            {"sink__format": "delta", "sink__path": "file:/a%20b"},
            "sink.path: '/a%20b': delta-rs cannot open paths with '%20'",
        ),
        ({"run__give_up_after": "1m"}, "run.give_up_after: '1m': only a trigger with a time"),
        (
            {"run__trigger": "1s", "run__give_up_after": "soon"},
            "run.give_up_after: 'soon': use a time such as 10m",
        ),
        ({"run__trigger": "0s"}, "run.trigger: '0s': use available_now, or a time"),
        ({"source__topcis": ["a"]}, "source.topcis: ['a']: no such key; did you mean topics?"),
        ({"source__topics": None}, "source.topics: missing: name topics, or a pattern"),
        ({"source__pattern": "o"}, "source.topics: ['orders']: name topics, or a pattern"),
        ({"source__topics": ["a/b"]}, "source.topics: 'a/b'"),
        ({"source__servers": None}, "source.servers: missing: HOST:PORT"),
        ({"source__schema": None}, "source.schema: missing: format json needs one"),
        ({"source__starting": "now"}, "source.starting: 'now': use earliest or latest"),
        ({"source": 5}, "source: expected keys and values, got 5"),
        ({"sink__path": None}, "sink.path: missing: a directory"),
        ({"sink__format": "orc"}, "sink.format: 'orc': use parquet or delta or iceberg"),
        ({"sink__path": "s3://b/t"}, "sink.path: 's3://b/t': S3 cannot rename a directory"),
        (
            {"run__checkpoint": "s3://b/c"},
            "run.checkpoint: 's3://b/c': only a lake in Delta or Iceberg keeps it on S3",
        ),
        ({"sink__table": "a.b"}, "sink.table: 'a.b': only format iceberg has one"),
        (ICEBERG | {"sink__table": "orders"}, "sink.table: 'orders': name a table with its"),
        (ICEBERG | {"sink__path": "/x"}, "sink.path: '/x': the catalog knows where the table is"),
        (ICEBERG | {"sink__catalog": {}}, "sink.catalog.type: missing: use one of sql, rest"),
        (
            ICEBERG | {"sink__catalog": {"type": "rest"}},
            "sink.catalog.uri: missing: a catalog of type rest needs its address",
        ),
        (
            ICEBERG | {"sink__catalog": {"type": "glue", "s3.secret-access-key": "x"}},
            "sink.catalog.s3.secret-access-key: '...': a spec has no credentials",
        ),
        (
            ICEBERG | {"sink__catalog": {"type": "sql", "uri": "postgresql://me:pw@h/db"}},
            "sink.catalog.uri: '...': a spec has no credentials",
        ),
        (
            ICEBERG | {"sink__partition_by": ["hour(_ts)"]},
            "sink.partition_by: 'hour(_ts)': use COLUMN or day(COLUMN)",
        ),
        ({"sink__keep": "latest"}, "sink.keep: 'latest': files of parquet cannot be replaced"),
        ({"sink__format": "delta", "sink__path": "hdfs://b/t"}, "sink.path: 'hdfs://b/t': use a"),
        (
            {"sink__format": "delta", "sink__keep": "latest", "sink__partition_by": ["date"]},
            "sink.partition_by: ['date']: a table of latest rows has none",
        ),
        ({"sink__offsets": "identical"}, "sink.offsets: 'identical': use translated"),
        ({"transform": "m:f"}, "transform: 'm:f': only kind stream has one"),
        ({"delivery": "at_least_once"}, "delivery: 'at_least_once': use exactly_once"),
        ({"sink__exactly_once": True}, "sink.exactly_once: True: only a stream to a topic has it"),
        ({"sink__exactly_once": "yes"}, "sink.exactly_once: 'yes': use true or false"),
        ({"errors": {"retries": 2}}, "errors.dlq: missing"),
        ({"errors": {"retries": -1, "dlq": "d"}}, "errors.retries: -1: use a number"),
        ({"errors": {"retries": 2, "dlq": "d"}}, "errors.retry_topic: missing: 2 retries"),
        ({"run__trigger": "often"}, "run.trigger: 'often': use available_now, or a time"),
        ({"run__checkpoint": None}, "run.checkpoint: missing: a directory"),
        ({"run__options": [1]}, "run.options: [1]: expected options"),
    ],
)
def test_a_mistake_is_one_line(changed: dict[str, Any], line: str) -> None:
    found = mistakes(document(**changed))
    assert any(each.startswith(line) for each in found), found


def test_an_iceberg_table_has_days_and_a_checkpoint_anywhere() -> None:
    found = parse(document(**ICEBERG, run__checkpoint="s3://b/c"))
    assert found.sink.partition_by == ("day(_ts)",)
    assert found.sink.catalog["type"] == "sql"


def test_all_mistakes_are_told_at_once() -> None:
    assert len(mistakes({"kind": "mirror", "source": {}, "sink": {}, "run": {"x": 1}})) == 5


@pytest.mark.parametrize("given", [None, [], "text", 5])
def test_what_is_no_mapping_is_one_line(given: object) -> None:
    assert mistakes(given)[0].startswith("the spec: expected keys and values")


def test_a_mirror_needs_another_cluster_and_no_checkpoint() -> None:
    source = {"servers": "a:1", "pattern": "^o"}
    given = {"name": "m", "kind": "mirror", "source": source, "sink": {"servers": "a:1"}}
    assert mistakes(given) == ["sink.servers: 'a:1': that is the source: name another cluster"]
    given["sink"] = {"servers": "b:1"}
    assert isinstance(parse(given), Spec)
    given["run"] = {"checkpoint": "c"}
    assert mistakes(given)[0].startswith("run.checkpoint: 'c': a mirror keeps its progress")


def test_times_have_units() -> None:
    spec = parse(document(run__trigger="10s"))
    assert spec.run.interval_ms == 10_000


def test_a_file_is_read_safely(tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    path = tmp_path / "spec.yml"
    path.write_text(yaml.safe_dump(document()))
    assert load(path) == parse(document())
    for text in ("a: [", "a: !!python/object/apply:os.getcwd []", "\0"):
        path.write_text(text)
        with pytest.raises(PipelineError, match="cannot be read: "):
            load(path)


def test_a_key_that_is_there_twice_is_a_mistake(tmp_path: Path) -> None:
    pytest.importorskip("yaml", reason="PyYAML is not installed")
    path = tmp_path / "spec.yml"
    path.write_text("name: a\nkind: lake\nname: b\n")
    with pytest.raises(PipelineError, match="the key 'name' in line 3 occurs twice"):
        load(path)


def test_a_line_that_would_fill_the_memory_is_shown_in_short(tmp_path: Path) -> None:
    pytest.importorskip("yaml", reason="PyYAML is not installed")
    path = tmp_path / "spec.yml"
    lists = ["l0: &l0 [x, x, x, x, x, x, x, x, x]"]
    lists += [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 12)]
    path.write_text("\n".join([*lists, "name: *l11"]))
    with pytest.raises(PipelineError, match=r"name: \[\[\[.*: expected text") as refused:
        load(path)
    assert all(len(line) < 200 for line in str(refused.value).splitlines())


def test_a_stream_to_a_topic_can_be_asked_to_write_exactly_once() -> None:
    stream = {"kind": "stream", "sink": {"topic": "out", "exactly_once": True}}
    found = parse(document(**stream))
    assert (found.sink.exactly_once, found.delivery) == (True, "exactly_once")
    stream["sink"] = {"topic": "out", "exactly_once": False}
    assert parse(document(**stream)).delivery == "at_least_once"


def test_the_brokers_decide_how_a_stream_is_written_unless_the_spec_does() -> None:
    stream = document(kind="stream", sink={"topic": "out"})
    assert parse(stream).delivery == "by_brokers"
    for given in ("exactly_once", "at_least_once"):
        assert parse({**stream, "delivery": given}).delivery == given
    stream["sink"] = {"format": "console"}
    assert parse(stream).delivery == "at_least_once"


def test_a_mirror_copies_exactly_once_unless_it_is_asked_not_to() -> None:
    given = document(kind="mirror", sink={"servers": "other:9092"}, run={})
    given["source"] = {"servers": "h:9092", "topics": ["orders"]}
    assert parse(given).delivery == "exactly_once"
    assert parse({**given, "delivery": "at_least_once"}).delivery == "at_least_once"
