"""What must be true of lakes, mirrors and groups, at every moment and at the end.

The source's records are the truth: each has a value of its own. `Untrue` says what is not so.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Message, TopicPartition

from barnabas.client.blocking.admin import Admin
from barnabas.client.workers import dead_letter_headers as header_names
from barnabas.model.ids import TopicPartition as At
from barnabas.pipeline.mirror.target_topics import state_records
from barnabas.pipeline.mirror.translation import Origins, Translation, take_in
from barnabas.pipeline.spark.brokers import opened
from tests.waiting import WAIT_S

Rows = dict[int, list[tuple[int, bytes, bytes]]]  # by partition: offset, key, value


class Untrue(AssertionError):
    """A promise that was broken."""


def read(servers: str, topic: str) -> Rows:
    """All there is."""
    with Admin({"bootstrap.servers": servers}) as admin:
        found: Rows = {each.number: [] for each in admin.topic(topic).partitions}
    for message in _messages(servers, topic):
        offset, key, value = message.offset(), message.key(), message.value()
        assert offset is not None
        assert isinstance(key, bytes)
        assert isinstance(value, bytes)
        found[message.partition() or 0].append((offset, key, value))
    return found


def read_headers(servers: str, topic: str) -> list[tuple[bytes, dict[str, str]]]:
    """Values and headers."""
    found = []
    for message in _messages(servers, topic):
        value = message.value()
        headers: Any = message.headers() or []
        assert isinstance(value, bytes)
        named = {name: text.decode() for name, text in headers if isinstance(text, bytes)}
        found.append((value, named))
    return found


def _messages(servers: str, topic: str) -> Iterator[Message]:
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "truth", "enable.partition.eof": True}
    )
    try:
        known = consumer.list_topics(topic, timeout=WAIT_S).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, 0) for number in known])
        ended = 0
        while ended < len(known):
            message = consumer.poll(WAIT_S)
            assert message is not None, f"{topic} cannot be read"
            if message.error():
                ended += 1
            else:
                yield message
    finally:
        consumer.close()


# --- a topic that is written exactly once ---


def committed_values(servers: str, topic: str) -> list[bytes]:
    """As a reader of committed records, which is librdkafka's default."""
    return [message.value() or b"" for message in _messages(servers, topic)]


def check_sink(name: str, copies: list[bytes], source: Rows, *, whole: bool) -> None:
    """None twice, none that was not written; at the end, all."""
    wanted = {value for of in source.values() for _, _, value in of}
    if twice := [value for value, count in Counter(copies).items() if count > 1]:
        raise Untrue(f"{name}: {len(twice)} records are there twice, e.g. {sorted(twice)[:3]}")
    if strange := sorted(set(copies) - wanted):
        raise Untrue(f"{name}: {strange[0]!r} was not written to the source")
    if whole and len(copies) < len(wanted):
        raise Untrue(f"{name}: {len(wanted) - len(copies)} records are missing")


# --- lakes ---


def check_lake(name: str, rows: list[tuple[int, int, bytes]], source: Rows, *, whole: bool) -> None:
    """`rows`: partition, offset, value. None twice, none that was not written; at the end, all."""
    counts = Counter((partition, offset) for partition, offset, _ in rows)
    if twice := [at for at, count in counts.items() if count > 1]:
        raise Untrue(f"{name}: {len(twice)} records are there twice, e.g. {sorted(twice)[:3]}")
    wanted = {(number, offset): value for number, of in source.items() for offset, _, value in of}
    for partition, offset, value in rows:
        if wanted.get((partition, offset)) != value:
            raise Untrue(f"{name}: {partition}/{offset} is {value!r}, which was not written there")
    if whole and (missing := sorted(wanted.keys() - counts.keys())):
        raise Untrue(f"{name}: {len(missing)} records are missing, e.g. {missing[:3]}")


def parquet_rows(path: Path) -> list[tuple[int, int, bytes]]:
    import pyarrow.dataset

    batches = sorted(str(each) for each in path.glob("batch=*"))
    if not batches:
        return []
    table = pyarrow.dataset.dataset(
        [pyarrow.dataset.dataset(each, format="parquet") for each in batches]
    ).to_table(columns=["_partition", "_offset", "number"])
    found = zip(*(table.column(n).to_pylist() for n in range(3)), strict=True)
    return [(partition, offset, b'{"number": %d}' % number) for partition, offset, number in found]


def dead_rows(servers: str, topic: str) -> list[tuple[int, int, bytes]]:
    """Where dead letters come from, and what they are."""
    with Admin({"bootstrap.servers": servers}) as admin:
        if topic not in admin.topics().topics:
            return []
    found = []
    for value, headers in read_headers(servers, topic):
        origin = (int(headers[header_names.PARTITION]), int(headers[header_names.OFFSET]))
        found.append((*origin, value))
    return found


def delta_rows(path: str, columns: tuple[str, ...]) -> list[tuple[Any, ...]]:
    from deltalake import DeltaTable

    if not DeltaTable.is_deltatable(path):
        return []
    table = DeltaTable(path).to_pyarrow_table(columns=list(columns))
    return list(zip(*(table.column(name).to_pylist() for name in columns), strict=True))


def iceberg_table(sink: Mapping[str, Any]) -> Any:
    """The table; None if there is none yet."""
    from barnabas.pipeline.lake.iceberg_catalog import CatalogSpec, open_catalog

    catalog = open_catalog(CatalogSpec("default", dict(sink["catalog"])))
    return catalog.load_table(sink["table"]) if catalog.table_exists(sink["table"]) else None


def iceberg_rows(sink: Mapping[str, Any], columns: tuple[str, ...]) -> list[tuple[Any, ...]]:
    table = iceberg_table(sink)
    if table is None:
        return []
    found = table.scan(selected_fields=columns).to_arrow()
    return list(zip(*(found.column(name).to_pylist() for name in columns), strict=True))


def check_no_orphans(name: str, sink: Mapping[str, Any]) -> None:
    """The store has the files that the table names, and no other."""
    from barnabas.pipeline.lake.store import Store

    if sink["format"] == "iceberg":
        table = iceberg_table(sink)
        store, named = Store(table.location()), len(list(table.scan().plan_files()))
    else:
        from deltalake import DeltaTable

        store, named = Store(sink["path"]), len(DeltaTable(sink["path"]).file_uris())
    there = {each for each, _, _ in store.files() if each.endswith(".parquet")}
    there = {each for each in there if not each.startswith("_delta_log/")}
    if len(there) != named:
        raise Untrue(f"{name}: the table names {named} files, and the store has {len(there)}")


def check_latest(name: str, rows: list[tuple[object, ...]], source: Rows) -> None:
    """`rows`: key and value. A key is always in one partition here."""
    latest = {key: value for of in source.values() for _, key, value in of}
    if len(rows) != len(latest) or dict(rows) != latest:  # type: ignore[arg-type]
        raise Untrue(f"{name}: {len(rows)} rows, {len(latest)} keys, or not the latest of each")


# --- groups ---


def check_group(servers: str, group: str, checkpoint: Path) -> None:
    """What the group has committed is in Spark's checkpoint as done: asked for in this order."""
    with Admin({"bootstrap.servers": servers}) as admin:
        committed = admin.group_offsets(group)
    done = _done(checkpoint)
    for at, each in committed.items():
        if each.offset > done.get((at.topic, at.partition), 0):
            raise Untrue(
                f"group {group!r} is at {each.offset} of {at}, and Spark has committed"
                f" {done.get((at.topic, at.partition), 0)}"
            )


def _done(checkpoint: Path) -> dict[tuple[str, int], int]:
    """Where the last batch ends of which Spark has noted that it is done."""
    numbers = [int(each.name) for each in (checkpoint / "commits").glob("[0-9]*")]
    if not numbers:
        return {}
    lines = (checkpoint / "offsets" / str(max(numbers))).read_text().splitlines()
    return {
        (topic, int(number)): offset
        for topic, offsets in json.loads(lines[2]).items()
        for number, offset in offsets.items()
    }


# --- mirrors ---


def check_mirror(source: str, target: str, topic: str, readers: str, *, whole: bool) -> None:
    """Nothing that counts as copied is missing, and no translated offset skips a record."""
    with Admin({"bootstrap.servers": source}) as admin, Admin({"bootstrap.servers": target}) as to:
        if topic not in to.topics().topics:
            return
        moved = to.group_offsets(readers)
        read_there = admin.group_offsets(readers)
        translation = Translation(admin.cluster().id or "")
    take_in(state_records(opened({"bootstrap.servers": target})), translation, Origins())
    copies = read(target, topic)
    for number, rows in read(source, topic).items():
        at = At(topic, number)
        progress = translation.progress.get(at, 0)
        if whole and progress < len(rows):
            raise Untrue(f"{at}: {progress} of {len(rows)} are copied")
        last = _last_copies(at, rows, copies.get(number, []), progress)
        for offset in range(progress + 1):
            found = translation.offset(at, offset)
            if found is not None and found > last[offset]:
                raise Untrue(f"{at}: offset {offset} becomes {found}, and one is at {last[offset]}")
        if at in moved:
            reached = read_there[at].offset if at in read_there else 0
            if moved[at].offset > last[min(reached, progress)]:
                raise Untrue(f"{at}: group {readers!r} goes on at {moved[at].offset}: too late")


def _last_copies(
    at: At, rows: list[tuple[int, bytes, bytes]], copies: list[tuple[int, bytes, bytes]], until: int
) -> list[float]:
    """By offset of the source: the lowest place in the target of any record from there on."""
    where: Mapping[bytes, int] = {value: offset for offset, _, value in copies}
    lowest: list[float] = [float("inf")] * (until + 1)
    for offset in range(until - 1, -1, -1):
        value = rows[offset][2]
        if value not in where:
            raise Untrue(f"{at}: offset {offset} counts as copied, and is not in the target")
        lowest[offset] = min(where[value], lowest[offset + 1])
    return lowest


def check_identical(source: str, target: str, topic: str, *, whole: bool) -> None:
    """The target is the source, up to where it ends."""
    with Admin({"bootstrap.servers": target}) as admin:
        if topic not in admin.topics().topics:
            return
    copies = read(target, topic)
    for number, rows in read(source, topic).items():
        there = copies.get(number, [])
        if there != rows[: len(there)] or (whole and len(there) != len(rows)):
            raise Untrue(f"{topic}-{number}: {len(there)} of {len(rows)} records, not the same")
