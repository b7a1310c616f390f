"""The process that runs one query: `python -m barnabas.sql.worker`, with a request on its input.

In: one JSON line: the query, the client's settings, limits. Out: JSON lines: columns, rows, notes,
and an error or the end. Always: DuckDB reaches no file, no network and no setting; only the topics
that the query names are read, up to the ends that they have when it starts.
"""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

import duckdb
import pyarrow as pa

from barnabas.client.blocking.admin import Admin
from barnabas.client.blocking.partition_consumer import PartitionConsumer
from barnabas.config.option import nearest
from barnabas.model.errors import KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.sql import ranges
from barnabas.sql.ranges import Span
from barnabas.sql.statement import Condition, Statement, read_statement
from barnabas.wire.messages.list_offsets import EARLIEST, LATEST

SAMPLE = 1_000
ROWS_AT_ONCE = 50_000
WINDOW = 5_000  # offsets of each partition
SHOWN_AT_ONCE = 500
_TYPES: dict[type, str] = {bool: "BOOLEAN", int: "BIGINT", float: "DOUBLE", str: "VARCHAR"}
BASE = ("key", "value", "topic", "partition", "offset", "timestamp", "headers")


class QueryFailed(Exception):
    """The query cannot be run: what is wrong with it."""


def say(**line: Any) -> None:
    sys.stdout.write(json.dumps(line, default=str) + "\n")
    sys.stdout.flush()


def sandboxed(memory_mb: int) -> Any:
    """A DuckDB that reaches nothing; `lock` it once the topics are registered."""
    return duckdb.connect(
        ":memory:",
        config={
            "enable_external_access": "false",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "allow_unsigned_extensions": "false",
            "memory_limit": f"{memory_mb}MB",
            "threads": "1",
            "temp_directory": "",
            "python_enable_replacements": "false",
        },
    )


def lock(database: Any) -> None:
    database.execute("SET disabled_filesystems='LocalFileSystem'").fetchall()
    database.execute("SET lock_configuration=true").fetchall()


def parsed(database: Any, query: str) -> Statement:
    (text,) = database.execute("SELECT json_serialize_sql(?)", [query]).fetchall()[0]

    def evaluate(expression: dict[str, Any]) -> Any:
        """By DuckDB itself: SELECT with nothing but the expression."""
        (shape,) = database.execute("SELECT json_serialize_sql('SELECT 1')").fetchall()[0]
        select = json.loads(shape)
        select["statements"][0]["node"]["select_list"] = [expression]
        (sql,) = database.execute(
            "SELECT json_deserialize_sql(?)", [json.dumps(select)]
        ).fetchall()[0]
        (kind, value) = database.execute(
            f"SELECT typeof(v), CASE WHEN typeof(v) LIKE 'TIMESTAMP%' OR typeof(v) = 'DATE'"
            f" THEN epoch_ms(CAST(v AS TIMESTAMP))::VARCHAR ELSE v::VARCHAR END"
            f" FROM ({sql.rstrip().rstrip(';')}) AS t(v)"
        ).fetchall()[0]
        if kind.startswith("TIMESTAMP") or kind == "DATE":
            return datetime.fromtimestamp(int(value) / 1000, UTC)
        if kind in ("INTEGER", "BIGINT", "SMALLINT", "TINYINT", "HUGEINT"):
            return int(value)
        return value if kind == "VARCHAR" else None

    try:
        return read_statement(json.loads(text), evaluate)
    except ValueError as problem:
        raise QueryFailed(str(problem)) from None


class TopicReader:
    """One topic of a query: which offsets it reads, and its records as Arrow."""

    def __init__(
        self, name: str, settings: dict[str, str], conditions: Sequence[Condition], most: int
    ) -> None:
        self.name = name
        self._settings = {"auto.offset.reset": "earliest", **settings}
        self.notes: list[str] = []
        with Admin(settings) as admin:
            topics = admin.topics().topics
            if name not in topics:
                raise QueryFailed(f"topic {name!r} does not exist{nearest(name, topics)}")
            numbers = [partition.number for partition in topics[name].partitions]
            chosen = ranges.wanted_partitions(numbers, conditions)
            if any(each.column == "key" and each.operator == "=" for each in conditions):
                self.notes.append(
                    f"reads partition {', '.join(map(str, chosen)) or 'none'} only, where producers"
                    " that hash as Java does write this key"
                )
            places = {TopicPartition(name, number): EARLIEST for number in chosen}
            firsts = admin.offsets(places) if places else {}
            # Records of open transactions are not read, and a reader would wait for them.
            committed = settings.get("isolation.level", "read_committed") == "read_committed"
            latest = dict.fromkeys(places, LATEST)
            ends = admin.offsets(latest, committed_only=committed) if places else {}
            since = ranges.since_ms(conditions)
            starts = {at: firsts[at].offset for at in places}
            if since is not None and places:
                for at, found in admin.offsets(dict.fromkeys(places, since)).items():
                    starts[at] = max(starts[at], found.offset if found.offset >= 0 else 1 << 62)
        self.ends = {at.partition: ends[at].offset for at in places}
        spans = {
            at.partition: ranges.by_offset((starts[at], ends[at].offset), conditions)
            for at in places
        }
        self.spans = {number: span for number, span in spans.items() if span[0] < span[1]}
        self.limit_to(most)

    def limit_to(self, most: int) -> None:
        before = self.records
        self.spans = ranges.newest(self.spans, most)
        if self.records < before:
            self.notes.append(
                f"{before - self.records:,} of {before:,} records are not read: the limit is"
                f" {most:,}"
            )

    @property
    def records(self) -> int:
        return sum(stop - start for start, stop in self.spans.values())

    def sample(self) -> list[Any]:
        """The values of the newest records."""
        each = max(1, SAMPLE // max(1, len(self.spans)))
        spans = {
            number: (max(start, stop - each), stop) for number, (start, stop) in self.spans.items()
        }
        return [value for batch in self._read(spans) for value in batch.column("value").to_pylist()]

    def batches(self, *, newest_first: bool) -> Iterator[Any]:
        """Oldest first, or windows from the ends backwards: for a query that has only a limit."""
        if not newest_first:
            yield from self._read(self.spans)
            return
        left = dict(self.spans)
        while left:
            windows = {n: (max(start, stop - WINDOW), stop) for n, (start, stop) in left.items()}
            found = pa.Table.from_batches(list(self._read(windows)))
            order = [("timestamp", "descending"), ("offset", "descending")]
            yield from found.sort_by(order).to_batches()
            left = {n: (left[n][0], low) for n, (low, _) in windows.items() if low > left[n][0]}

    def follow(self) -> Iterator[Any]:
        """New records, from the ends on."""
        places = [TopicPartition(self.name, number) for number in self.ends]
        with PartitionConsumer(places, self._settings) as consumer:
            for at in places:
                consumer.seek(at, self.ends[at.partition])
            while True:
                batch = consumer.read_arrow(ROWS_AT_ONCE, 1.0, headers=True)
                if batch.num_rows:
                    yield batch

    def _read(self, spans: dict[int, Span]) -> Iterator[Any]:
        if not spans:
            return
        places = {TopicPartition(self.name, number): span for number, span in spans.items()}
        with PartitionConsumer(list(places), self._settings) as consumer:
            for at, (start, _) in places.items():
                consumer.seek(at, start)
            consumer.stop_at({at: stop for at, (_, stop) in places.items()})
            while not consumer.finished():
                yield consumer.read_arrow(ROWS_AT_ONCE, 30.0, headers=True)


def inferred(values: list[Any]) -> dict[str, str]:
    """Columns of JSON objects; a field of several types is JSON, and integers may be fractions."""
    kinds: dict[str, set[str]] = {}
    for value in values:
        try:
            found = json.loads(value) if value and value[:1] == b"{" else None
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            for name, field in list(found.items())[:200]:
                if field is not None:
                    kinds.setdefault(name, set()).add(_TYPES.get(type(field), "JSON"))
                else:
                    kinds.setdefault(name, set())
    columns: dict[str, str] = {}
    taken = set(BASE)
    for name, types in kinds.items():
        if name.lower() in taken or len(columns) >= 500:
            continue
        taken.add(name.lower())
        kind = "DOUBLE" if types == {"BIGINT", "DOUBLE"} else "JSON"
        columns[name] = next(iter(types)) if len(types) == 1 else kind if types else "VARCHAR"
    return columns


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def view_sql(topic: str, source: str, columns: dict[str, str]) -> str:
    """The topic as a table: the record's own columns, then those of its value."""
    own = 'try(decode("key")) AS "key", __text AS "value", "topic", "partition", "offset",'
    own += ' "timestamp", "headers"'
    shape = json.dumps(columns).replace("'", "''")
    fields = "".join(f", __json.{quoted(name)} AS {quoted(name)}" for name in columns)
    decoded = f'(SELECT *, try(decode("value")) AS __text FROM {source})'
    if columns:
        decoded = (
            f"(SELECT *, CASE WHEN json_valid(__text) AND __text[1] = '{{'"
            f" THEN from_json(__text, '{shape}') END AS __json FROM {decoded})"
        )
    return f"CREATE OR REPLACE VIEW {quoted(topic)} AS SELECT {own}{fields} FROM {decoded}"


def registered(
    database: Any, reader: TopicReader, number: int, *, twice: bool, newest_first: bool
) -> str:
    """The topic as a lazy stream of Arrow; a query that names it twice needs all of it."""
    from barnabas.client.consumer.arrow import ArrowRows

    schema = ArrowRows(headers=True).schema
    source = f"__topic_{number}"
    batches = reader.batches(newest_first=newest_first)
    stream = pa.RecordBatchReader.from_batches(schema, batches)
    database.register(source, stream.read_all() if twice else stream)
    return source


class TableReader(Protocol):
    """A table of a query that is more than a topic."""

    name: str
    notes: list[str]

    def plan(self) -> dict[str, Any]: ...

    def stream(self) -> Any:
        """A RecordBatchReader."""


def no_tables(name: str, conditions: Sequence[Condition]) -> TableReader | None:
    return None


def run(request: dict[str, Any], table: Callable[..., TableReader | None] = no_tables) -> None:
    """`table`: makes the reader of a name that is not a topic."""
    database = sandboxed(request["memory_mb"])
    try:
        statement = parsed(database, request["query"])
        readers = []
        tables: list[TableReader] = []
        for name in statement.topics:
            conditions = statement.conditions if len(statement.topics) == 1 else ()
            if (found := table(name, conditions)) is not None:
                tables.append(found)
                continue
            readers.append(
                TopicReader(name, request["settings"], conditions, request["records_max"])
            )
        for each in tables:
            for note in each.notes:
                say(note=f"{each.name}: {note}")
            say(plan=each.plan())
        for reader in readers:
            for note in reader.notes:
                say(note=f"{reader.name}: {note}")
            say(
                plan={
                    "topic": reader.name,
                    "records": reader.records,
                    "ranges": {str(number): span for number, span in reader.spans.items()},
                }
            )
        if request["explain"]:
            say(done=True)
            return
        columns = {reader.name: inferred(reader.sample()) for reader in readers}
        if request["follow"]:
            if tables:
                raise QueryFailed("--follow: a table is not followed: leave --lake out")
            _follow(database, request["query"], statement, readers, columns)
            return
        for number, reader in enumerate(readers):
            twice = statement.topics[reader.name] > 1
            source = registered(
                database, reader, number, twice=twice, newest_first=statement.limit_only
            )
            database.execute(view_sql(reader.name, source, columns[reader.name])).fetchall()
        for number, each in enumerate(tables):
            stream = each.stream()
            twice = statement.topics[each.name] > 1
            database.register(f"__table_{number}", stream.read_all() if twice else stream)
            made = f"CREATE VIEW {quoted(each.name)} AS SELECT * FROM __table_{number}"
            database.execute(made).fetchall()
        database.execute(
            "CREATE MACRO latest(t) AS TABLE SELECT * FROM query_table(t) QUALIFY"
            ' row_number() OVER (PARTITION BY "partition", "key" ORDER BY "offset" DESC) = 1'
        ).fetchall()
        lock(database)
        shown = _rows(database, request["query"], request["rows_max"], True)
        say(done=True, rows=shown)
    finally:
        database.close()


def _follow(
    database: Any,
    query: str,
    statement: Statement,
    readers: list[TopicReader],
    columns: dict[str, dict[str, str]],
) -> None:
    if not statement.can_follow or len(readers) != 1:
        raise QueryFailed("--follow: only a query of one topic that filters and projects")
    (reader,) = readers
    first = True
    for batch in reader.follow():
        database.register("__topic_0", pa.Table.from_batches([batch]))
        if first:
            database.execute(view_sql(reader.name, "__topic_0", columns[reader.name])).fetchall()
            lock(database)
        _rows(database, query, 1 << 60, first)
        first = False


def _rows(database: Any, query: str, most: int, with_columns: bool) -> int:
    result = database.execute(query)
    names = [column[0] for column in result.description]
    if with_columns:
        say(columns=names)
    shown = 0
    while rows := result.fetchmany(min(SHOWN_AT_ONCE, most - shown)):
        say(rows=[[_plain(value) for value in row] for row in rows])
        shown += len(rows)
        if shown >= most:
            say(note=f"only the first {most:,} rows are shown")
            break
    return shown


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode(errors="backslashreplace")
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds")
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    return str(value)


def main() -> None:
    request = json.loads(sys.stdin.readline())
    try:
        run(request)
    except QueryFailed as problem:
        say(error=str(problem))
    except KafkaError as problem:
        say(error=problem.detail)
    except duckdb.Error as problem:
        say(error=str(problem).strip())
    except BrokenPipeError:
        pass


if __name__ == "__main__":
    main()
