"""The metrics of a delayer that runs: what waits, what was delivered and cancelled, how late."""

import re
import urllib.request
from pathlib import Path

import barnabas
from tests.cli.command import barnabas as command
from tests.client_e2e.conftest import Served
from tests.client_e2e.delaying import DelayedSend, delayer, now_ms, send
from tests.waiting import WAIT_S, until

DAY_MS = 86_400_000
PAGE = re.compile(r"metrics at (http://\S+)")


async def test_the_metrics_of_a_delayer_tell_what_waits_and_what_became_of_the_rest(
    served: Served, tmp_path: Path, topic: str
) -> None:
    servers, holding = served.bootstrap_servers, f"{topic}-later"
    async with barnabas.Admin(bootstrap_servers=servers) as admin:
        await admin.create_topic(topic, partitions=1)
        await admin.create_topic(holding, partitions=1, configs={"retention.ms": "-1"})
    tomorrow = str(now_ms() + DAY_MS)
    records = [DelayedSend("now", "0", topic), DelayedSend("broken", "soon", topic)]
    records += [DelayedSend(name, tomorrow, topic, name) for name in ("first", "second", "third")]
    send(servers, holding, records)
    with delayer(servers, tmp_path / "log", holding, "--metrics", "127.0.0.1:0") as running:
        address = PAGE.search(running.said)
        assert address is not None, running.said

        def figures() -> dict[str, float]:
            with urllib.request.urlopen(address[1], timeout=WAIT_S) as page:
                lines = page.read().decode().splitlines()
            found = (line.rpartition(" ") for line in lines if holding in line)
            return {name.partition("{")[0]: float(value) for name, _, value in found}

        patient = ("--timeout", str(WAIT_S))
        ended = command("delay", "cancel", holding, "--key", "second", *patient, servers=servers)
        assert ended.code == 0, ended

        def counted() -> bool:
            now = figures()
            return (
                now.get("barnabas_delay_waiting") == 2
                and now["barnabas_delay_delivered_total"] == 1
                and now["barnabas_delay_cancelled_total"] == 1
                and now["barnabas_delay_dead_letters_total"] == 1
            )

        until(counted, lambda: str(figures()))
        now = figures()
        assert now["barnabas_delay_next_due_timestamp_seconds"] * 1000 == int(tomorrow)
        assert now["barnabas_delay_lateness_seconds_count"] == 1
        assert now["barnabas_delay_lateness_p99_seconds"] >= 0
    taken = command("delay", "run", holding, "--metrics", served.bootstrap_servers, servers=servers)
    assert taken.code != 0
    assert "cannot be listened on" in taken.err
