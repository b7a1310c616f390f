"""Rates of clients, from the counts of two looks."""

from barnabas.client.admin.clients import ConnectedClient
from barnabas.client.client_rates import LOOK_MS_MAX, ClientLooks, ClientRates


def connected(port: int, requests: int, client_id: str = "worker") -> ConnectedClient:
    return ConnectedClient(
        1, client_id, "java 4.0", f"10.0.0.1:{port}", "User:a", "", 0, False, (),
        requests, requests * 100, requests * 1_000,
    )  # fmt: skip


KEY = ("worker", "java 4.0", "10.0.0.1", "User:a")


def test_a_rate_is_the_sum_of_the_connections_of_a_client() -> None:
    looks = ClientLooks()
    assert looks.add([connected(1, 5), connected(2, 0), connected(3, 9, "other")], 1_000) == {}
    rates = looks.add([connected(1, 25), connected(2, 20), connected(3, 9, "other")], 3_000)
    assert rates[KEY] == ClientRates(20, 2_000, 20_000)
    assert rates["other", *KEY[1:]] == ClientRates(0, 0, 0)


def test_a_connection_has_a_rate_from_its_second_look_on() -> None:
    looks = ClientLooks()
    looks.add([connected(1, 500)], 1_000)
    assert looks.add([connected(2, 7)], 3_000) == {}
    assert looks.add([connected(2, 5)], 5_000) == {}, "another connection from the same port"
    assert looks.add([connected(2, 15)], 6_000)[KEY].requests == 10


def test_a_look_that_is_too_old_gives_no_rate() -> None:
    looks = ClientLooks()
    looks.add([connected(1, 0)], 0)
    assert looks.add([connected(1, 100)], LOOK_MS_MAX + 1) == {}
    assert looks.add([connected(1, 100)], LOOK_MS_MAX + 1) == {}, "two looks at one time"


def test_brokers_that_do_not_count_have_no_rates() -> None:
    looks = ClientLooks()
    old = connected(1, -1)
    looks.add([old], 0)
    assert looks.add([old], 1_000) == {}
