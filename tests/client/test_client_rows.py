"""Connected clients in rows: connections of one client together, with its groups and topics."""

from barnabas.client.admin.clients import ConnectedClient, GroupMember
from barnabas.client.client_rows import client_rows


def connected(client_id: str, peer: str, broker: int = 1, **more: object) -> ConnectedClient:
    known = {"client": "java 4.0", "principal": "User:a", "listener": "", "idle_ms": 5}
    given = {**known, "waiting": False, "reads": (), **more}
    return ConnectedClient(broker=broker, client_id=client_id, peer=peer, **given)  # type: ignore[arg-type]


def test_connections_of_one_client_are_one_row() -> None:
    (row,) = client_rows(
        [
            connected("worker", "10.0.0.1:5000", idle_ms=900, reads=("orders",)),
            connected("worker", "10.0.0.1:5001", broker=2, idle_ms=7, waiting=True),
        ],
        [],
    )
    assert (row["connections"], row["brokers"], row["idle_ms"]) == (2, [1, 2], 7)
    assert (row["waiting"], row["reads"]) == (True, ["orders"])


def test_counts_are_of_all_connections_of_a_client() -> None:
    counted = {"requests": 3, "bytes_in": 10, "bytes_out": 20, "errors": 1}
    clients = [
        connected("worker", "10.0.0.1:5000", **counted, last_error="MESSAGE_TOO_LARGE"),
        connected("worker", "10.0.0.1:5001", **counted),
    ]
    (row,) = client_rows(clients, [])
    assert [row[name] for name in counted] == [6, 20, 40, 2]
    assert row["last_error"] == "MESSAGE_TOO_LARGE"
    (row,) = client_rows([connected("worker", "10.0.0.1:5000")], [])
    assert [row[name] for name in counted] == [None] * 4, "the broker does not count them"


def test_a_client_has_the_groups_of_its_members_on_the_same_host() -> None:
    members = [
        GroupMember("billing", "worker", "/10.0.0.1", ("orders",)),
        GroupMember("other", "worker", "/10.0.0.2", ("clicks",)),
    ]
    (row,) = client_rows([connected("worker", "::ffff:10.0.0.1:5000")], members)
    assert (row["host"], row["groups"], row["reads"]) == ("10.0.0.1", ["billing"], ["orders"])


def test_without_connections_the_rows_are_the_members() -> None:
    rows = client_rows(None, [GroupMember("billing", "worker", "/10.0.0.1", ("orders",))])
    assert [(row["client_id"], row["groups"], row["connections"]) for row in rows] == [
        ("worker", ["billing"], None)
    ]
