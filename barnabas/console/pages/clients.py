"""`/clients`: who is connected, with which software, and what they read."""

from barnabas.client.admin.clients import Connections
from barnabas.client.client_rows import COLUMNS, client_rows
from barnabas.client.tables import Row
from barnabas.client.words import count
from barnabas.console.application import Asked
from barnabas.console.pages.listing import listed
from barnabas.console.view import View
from barnabas.model.errors import Code, KafkaError
from barnabas.model.words import duration

_FRESH_MS = 5_000


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
        f"i{number}": _idle(row) for number, row in enumerate(found.rows)
    }  # fmt: skip
    return View(
        "clients",
        title,
        data={
            "listed": found,
            "rows": found.rows,
            "connected": connected is not None,
            "left_out": 0 if connected is None else connected.total - len(connected.clients),
            "throttled": throttled,
        },
        rows=found.rows,
        columns=COLUMNS,
        live=live,
        command="cluster clients",
        good=False if throttled else None,
    )


def _idle(row: Row) -> str:
    if row["idle_ms"] is None:
        return "-"
    return "now" if row["idle_ms"] < 1_000 else duration(row["idle_ms"])
