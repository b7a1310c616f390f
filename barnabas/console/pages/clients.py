"""`/clients`: who is connected, with which software, what they read, and how fast."""

import time

from barnabas.client.admin.clients import Connections
from barnabas.client.client_rates import ClientRates, RowKey
from barnabas.client.client_rows import COLUMNS, client_rows
from barnabas.client.tables import Row
from barnabas.client.words import count
from barnabas.console.application import Asked
from barnabas.console.pages.listing import listed
from barnabas.console.view import View
from barnabas.console.words import rate, size
from barnabas.model.errors import Code, KafkaError
from barnabas.model.words import duration

_FRESH_MS = 5_000
_RATES = ("requests_per_s", "bytes_in_per_s", "bytes_out_per_s")
_COLUMNS = (*COLUMNS, *_RATES, "last_error")


async def clients(asked: Asked) -> View:
    state = asked.state

    async def look() -> tuple[Connections | None, bool, list[Row]]:
        members = await state.admin.group_members()
        denied = False
        try:
            connected = await state.admin.connections()
        except KafkaError as problem:
            if problem.code is not Code.CLUSTER_AUTHORIZATION_FAILED:
                raise
            connected, denied = None, True
        rows = client_rows(None if connected is None else connected.clients, members)
        if connected is not None:
            now_ms = time.monotonic_ns() // 1_000_000
            _add_rates(rows, state.client_looks.add(connected.clients, now_ms))
        return connected, denied, rows

    connected, denied, every = await state.shared("clients", look, _FRESH_MS)
    found = listed(
        asked,
        every,
        lambda row: " ".join(
            (row["client_id"], row["client"], row["host"], row["principal"], *row["groups"],
             *row["reads"])
        ),
        {
            "-connections": lambda row: (row["connections"] or 0, row["client_id"]),
            "client": lambda row: (row["client_id"], row["host"]),
            "host": lambda row: (row["host"], row["client_id"]),
            "software": lambda row: (row["client"], row["client_id"]),
            "-requests": lambda row: (row.get("requests_per_s") or 0, row["client_id"]),
            "-in": lambda row: (row.get("bytes_in_per_s") or 0, row["client_id"]),
            "-out": lambda row: (row.get("bytes_out_per_s") or 0, row["client_id"]),
            "-errors": lambda row: (row["errors"] or 0, row["client_id"]),
            "idle": lambda row: (row["idle_ms"] or 0, row["client_id"]),
        },
        "/clients",
        "-connections",
    )  # fmt: skip
    title = count(found.total, "client") + (f" of {found.all:,} match" if found.q else "")
    if connected is not None:
        title += f", {count(connected.total, 'connection')}"
    elif denied:
        title += " in groups; connections require DESCRIBE of the cluster"
    else:
        title += " in groups; these brokers do not list their connections"
    throttled = [one for details in (await state.brokers()).values() for one in details.throttled]
    live = {
        f"{id_}{number}": text
        for number, row in enumerate(found.rows)
        for id_, text in _live(row).items()
    }
    return View(
        "clients",
        title,
        data={
            "listed": found,
            "rows": found.rows,
            "connected": connected is not None,
            "denied": denied,
            "left_out": 0 if connected is None else connected.total - len(connected.clients),
            "throttled": throttled,
        },
        rows=found.rows,
        columns=_COLUMNS,
        live=live,
        command="cluster clients",
        good=False if throttled else None,
    )


def _add_rates(rows: list[Row], rates: dict[RowKey, ClientRates]) -> None:
    for row in rows:
        found = rates.get((row["client_id"], row["client"], row["host"], row["principal"]))
        for name, value in zip(_RATES, found or (None,) * len(_RATES), strict=True):
            row[name] = None if value is None else round(value, 1)


def _live(row: Row) -> dict[str, str]:
    """The cells that change, by their ids."""
    requests, bytes_in, bytes_out = (row.get(name) for name in _RATES)
    return {
        "i": _idle(row),
        "r": rate(requests),
        "in": _bytes_rate(bytes_in),
        "out": _bytes_rate(bytes_out),
        "e": "-" if row["errors"] is None else f"{row['errors']:,}",
    }


def _bytes_rate(value: float | None) -> str:
    return "-" if value is None else f"{size(int(value))}/s"


def _idle(row: Row) -> str:
    if row["idle_ms"] is None:
        return "-"
    return "now" if row["idle_ms"] < 1_000 else duration(row["idle_ms"])
