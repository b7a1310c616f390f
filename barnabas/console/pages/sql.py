"""`/sql?q=`: a query over topics, started by the page as a stream; closing the stream ends it."""

import json
import shlex
from collections.abc import AsyncIterator
from contextlib import aclosing
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlencode

from starlette.responses import Response, StreamingResponse

from barnabas.console import words
from barnabas.console.application import Asked
from barnabas.console.view import View
from barnabas.model.errors import Code, InvalidRequest
from barnabas.model.times import parse_time
from barnabas.sql.running import WORKER, QueryRequest, run_query

ROWS_MAX = 500
PLAIN_S = 10.0
_EXAMPLES = (
    "select * from orders limit 20",
    "select partition, count(*) from orders group by 1 order by 1",
    "select * from latest('orders') limit 20",
    "select * from orders where key = '42' and timestamp > now() - interval 1 hour",
)


def _check(asked: Asked) -> None:
    if asked.options.mask:
        raise InvalidRequest(
            Code.POLICY_VIOLATION, "this console was started with --mask: it runs no queries"
        )
    for name in ("duckdb", "pyarrow"):
        if find_spec(name) is None:
            raise InvalidRequest(
                Code.UNSUPPORTED_VERSION,
                f"{name} is not installed where the console runs: pip install 'barnabas[sql]'",
            )


def _worker(asked: Asked) -> str:
    return asked.options.registry_worker if asked.options.registry else WORKER


async def sql(asked: Asked) -> View:
    _check(asked)
    query = asked.query("q")[:20_000]
    as_of = asked.query("as_of")[:40]
    as_of_ms = parse_time(as_of) if as_of else None
    plain = asked.query("plain") == "1" or not _is_html(asked)
    rows: list[dict[str, Any]] = []
    columns: list[str] = []
    notes: list[str] = []
    error = ""
    if query and plain:
        request = QueryRequest(
            query,
            asked.options.settings,
            rows_max=ROWS_MAX,
            seconds_max=PLAIN_S,
            as_of_ms=as_of_ms,
            registry=asked.options.registry,
        )
        async with aclosing(run_query(request, _worker(asked))) as lines:
            async for line in lines:
                columns = line.get("columns", columns)
                if isinstance(line.get("rows"), list):
                    rows += [dict(zip(columns, row, strict=True)) for row in line["rows"]]
                notes += [line["note"]] if "note" in line else []
                error = line.get("error", error)
    if error and not _is_html(asked):
        raise InvalidRequest(Code.INVALID_REQUEST, error)
    kept = {"q": query, **({"as_of": as_of} if as_of else {})}
    stream = "" if plain or not query else f"/sql/rows?{urlencode(kept)}"
    return View(
        "sql",
        "Ask topics a question" if not query else words.text(" ".join(query.split()), 120),
        data={
            "query": query,
            "rows": rows,
            "columns": columns,
            "notes": notes,
            "error": error,
            "stream": stream,
            "examples": _EXAMPLES,
            "plain": f"?{urlencode({**kept, 'plain': '1'})}",
            "as_of": as_of,
            "done": bool(query) and plain,
        },
        rows=rows,
        columns=columns,
        command=f"sql {shlex.quote(query or _EXAMPLES[0])}"
        + (f" --as-of {shlex.quote(as_of)}" if as_of else ""),
    )


def _is_html(asked: Asked) -> bool:
    return not asked.request.url.path.endswith((".json", ".csv", ".live"))


async def sql_rows(asked: Asked) -> Response:
    _check(asked)
    as_of = asked.query("as_of")[:40]
    request = QueryRequest(
        asked.query("q"),
        asked.options.settings,
        rows_max=ROWS_MAX,
        as_of_ms=parse_time(as_of) if as_of else None,
        registry=asked.options.registry,
    )

    async def items() -> AsyncIterator[bytes]:
        columns: list[str] = []
        seen = reading = 0
        async with aclosing(run_query(request, _worker(asked))) as lines:
            async for line in lines:
                if "plan" in line:
                    reading += line["plan"]["records"]
                    yield _line({"progress": f"Reads {reading:,} records."})
                if "columns" in line:
                    columns = [words.text(name, 100) for name in line["columns"]]
                    yield _line({"columns": columns})
                if isinstance(line.get("rows"), list):
                    for row in line["rows"]:
                        seen += 1
                        yield _line({"cells": [_cell(value) for value in row]})
                if "note" in line:
                    yield _line({"note": words.text(line["note"], 500)})
                if "error" in line:
                    yield _line({"progress": f"Failed: {words.text(line['error'], 1_000)}"})
                elif "done" in line:
                    yield _line(
                        {"progress": f"{seen:,} rows from at most {reading:,} records read."}
                    )

    return StreamingResponse(items(), media_type="application/x-ndjson")


def _line(item: dict[str, Any]) -> bytes:
    return json.dumps(item).encode() + b"\n"


def _cell(value: Any) -> dict[str, str]:
    if isinstance(value, dict | list):
        value = json.dumps(value, ensure_ascii=False, default=str)
    kind = "n" if isinstance(value, int | float) and not isinstance(value, bool) else "value"
    return {"text": "null" if value is None else words.text(value, 400), "class": kind}
