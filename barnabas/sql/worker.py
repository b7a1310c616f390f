"""The process that runs one query: `python -m barnabas.sql.worker`, with a request on its input.

In: one JSON line: the query, the client's settings, limits. Out: JSON lines: columns, rows, notes,
and an error or the end. Always: DuckDB reaches no file, no network and no setting; only the topics
that the query names are read, up to the ends that they have when it starts.
"""

import json
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

import duckdb
import pyarrow as pa

from barnabas.model.errors import KafkaError
from barnabas.sql.saving import save_rows
from barnabas.sql.statement import Condition, Statement, read_statement
from barnabas.sql.topic_reader import DecodeBatch, QueryFailed, TopicReader

SHOWN_AT_ONCE = 500
_TYPES: dict[type, str] = {bool: "BOOLEAN", int: "BIGINT", float: "DOUBLE", str: "VARCHAR"}
BASE = ("key", "value", "topic", "partition", "offset", "timestamp", "headers")


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


def run(
    request: dict[str, Any],
    table: Callable[..., TableReader | None] = no_tables,
    decoded: DecodeBatch | None = None,
) -> None:
    """`table`: makes the reader of a name that is not a topic. `decoded`: decodes a batch."""
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
                TopicReader(
                    name,
                    request["settings"],
                    conditions,
                    request["records_max"],
                    request["as_of_ms"],
                    decoded,
                )
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
        if request["save_as"]:
            shown = save_rows(
                database.sql(request["query"]), request["save_as"], request["save_fd"]
            )
        else:
            shown = _rows(database, request["query"], request["rows_max"], True)
        if decoded is not None and decoded.problem:
            say(note=f"not all keys and values could be decoded: {decoded.problem}")
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
