"""Connected clients in rows, one for each client id, software, host and principal; no requests.

In: connections, and the members of groups. Out: rows, those with the most connections first.
Counts are of the connections that are open now; None: no broker counts them.
"""

from collections.abc import Iterable
from typing import Any

from barnabas.client.admin.clients import ConnectedClient, GroupMember
from barnabas.client.tables import Row

COLUMNS = (
    "client_id", "client", "host", "principal", "connections", "brokers", "idle_ms", "requests",
    "errors", "groups", "reads",
)  # fmt: skip
COUNTED = ("requests", "bytes_in", "bytes_out", "errors")
_SETS = ("brokers", "listeners", "groups", "reads")


def client_rows(
    clients: Iterable[ConnectedClient] | None, members: Iterable[GroupMember]
) -> list[Row]:
    """`clients` None: no broker lists its connections, and the rows are the members of groups."""
    by_client: dict[tuple[str, str], list[GroupMember]] = {}
    for member in members:
        by_client.setdefault((member.client_id, member.host.lstrip("/")), []).append(member)
    rows: dict[tuple[str, ...], dict[str, Any]] = {}
    for each in clients or ():
        row = _row(rows, each.client_id, each.client, host_of(each.peer), each.principal)
        row["connections"] = (row["connections"] or 0) + 1
        row["brokers"].add(each.broker)
        row["listeners"].add(each.listener)
        idle_ms = row["idle_ms"]
        row["idle_ms"] = each.idle_ms if idle_ms is None else min(idle_ms, each.idle_ms)
        row["waiting"] = row["waiting"] or each.waiting
        row["reads"].update(each.reads)
        for name in COUNTED:
            if (counted := getattr(each, name)) >= 0:
                row[name] = (row[name] or 0) + counted
        row["last_error"] = each.last_error or row["last_error"]
    if clients is None:
        for client_id, host in by_client:
            _row(rows, client_id, "", host, "")
    for row in rows.values():
        for member in by_client.get((row["client_id"], row["host"]), ()):
            row["groups"].add(member.group)
            row["reads"].update(member.topics)
    found = [{**row, **{name: sorted(row[name]) for name in _SETS}} for row in rows.values()]
    return sorted(found, key=lambda r: (-(r["connections"] or 0), r["client_id"], r["host"]))


def host_of(peer: str) -> str:
    """Without the port; an IPv4 client of an IPv6 socket has its IPv4 address."""
    return peer.rpartition(":")[0].removeprefix("::ffff:")


def _row(
    rows: dict[tuple[str, ...], dict[str, Any]],
    client_id: str,
    client: str,
    host: str,
    principal: str,
) -> dict[str, Any]:
    return rows.setdefault(
        (client_id, client, host, principal),
        {
            "client_id": client_id, "client": client, "host": host, "principal": principal,
            "connections": None, "brokers": set(), "listeners": set(), "idle_ms": None,
            "waiting": False, "groups": set(), "reads": set(), "last_error": "",
            **dict.fromkeys(COUNTED),
        },
    )  # fmt: skip
