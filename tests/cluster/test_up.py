"""`barnabas up --brokers N`, with real brokers, as a user meets it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from tests.cli.command import Ended, barnabas
from tests.ports import free_ports_from
from tests.process import BrokerProcess, ClusterProcess, children
from tests.waiting import WAIT_S, until


def status(cluster: ClusterProcess) -> dict[str, Any]:
    ended = barnabas("status", "-J", servers=cluster.bootstrap_servers)
    assert ended.code == 0, ended
    found: dict[str, Any] = json.loads(ended.out)
    return found


def whole(cluster: ClusterProcess) -> bool:
    found = status(cluster)
    states = [broker["state"] for broker in found["brokers"]]
    return (
        sorted(states) == ["controller", "up", "up"]
        and not found["offline"]
        and not found["under_replicated"]
    )


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcess]:
    home = tmp_path_factory.mktemp("cluster")
    running = ClusterProcess(3, home / "data", log=home / "log")
    running.start()
    yield running
    assert running.stop() == 0
    running.check_log()


def command(cluster: ClusterProcess, *words: str, stdin: str = "") -> Ended:
    ended = barnabas(*words, stdin=stdin, servers=cluster.bootstrap_servers)
    assert ended.code == 0, ended
    return ended


def rows(cluster: ClusterProcess, *words: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in command(cluster, *words, "-J").out.splitlines()]


def test_status_shows_brokers_their_processes_and_the_controller(cluster: ClusterProcess) -> None:
    found = status(cluster)
    assert [broker["broker"] for broker in found["brokers"]] == [1, 2, 3]
    addresses = [broker["address"] for broker in found["brokers"]]
    assert ",".join(addresses) == cluster.bootstrap_servers
    assert {broker["process"] for broker in found["brokers"]} == set(children(cluster.pid))
    assert len({broker["epoch"] for broker in found["brokers"]}) == 3
    [controller] = [broker for broker in found["brokers"] if broker["controller"]]
    assert controller["broker"] == found["controller"]
    assert controller["state"] == "controller"


def test_a_topic_is_described_with_leaders_in_sync_sets_and_lag(cluster: ClusterProcess) -> None:
    command(cluster, "topic", "create", "shown", "-p", "3", "-r", "3")
    command(cluster, "produce", "shown", "-X", "acks=all", stdin="one\ntwo\n")
    found = rows(cluster, "topic", "describe", "shown")
    assert sorted(row["leader"] for row in found) == [1, 2, 3]
    for row in found:
        assert row["epoch"] == 0
        assert row["leader"] == row["replicas"][0]
        assert sorted(row["in_sync"]) == sorted(row["replicas"]) == [1, 2, 3]
        assert row["replica_lags"][0]["broker"] == row["leader"]
        assert {each["lag"] for each in row["replica_lags"]} == {0}
    assert "LAG" in command(cluster, "topic", "describe", "shown").out


def bystander(cluster: ClusterProcess) -> dict[str, Any]:
    """A broker that is not controller: the controller continues."""
    found: dict[str, Any] = next(b for b in status(cluster)["brokers"] if not b["controller"])
    return found


def test_a_killed_broker_is_started_again_and_events_say_why_others_led(
    cluster: ClusterProcess,
) -> None:
    command(cluster, "topic", "create", "moved", "-p", "3", "-r", "3")
    victim = bystander(cluster)
    number, process = victim["broker"], victim["process"]
    [led] = [row for row in rows(cluster, "topic", "describe", "moved") if row["leader"] == number]
    os.kill(process, signal.SIGKILL)
    until(lambda: f"broker {number}, process {process}, was killed by SIGKILL" in cluster.log)
    command(cluster, "produce", "moved", "-X", "acks=all", stdin="still here\n")
    until(lambda: f"broker {number} on " in cluster.log and whole(cluster))
    assert status(cluster)["brokers"][number - 1]["process"] != process
    found = rows(cluster, "cluster", "events", "-t", "moved")
    [election] = [event for event in found if event["what"] == "election"]
    assert election["partition"] == led["partition"]
    assert election["leader_before"] == number
    assert election["cause"] == f"broker {number} is no longer registered"
    until(lambda: "still here\n" in command(cluster, "consume", "moved", "-e").out)


def test_leadership_goes_back_on_request(cluster: ClusterProcess) -> None:
    command(cluster, "topic", "create", "back", "-p", "3", "-r", "3")
    process = bystander(cluster)["process"]
    os.kill(process, signal.SIGKILL)
    until(lambda: f"process {process}, was killed by SIGKILL" in cluster.log)
    until(lambda: whole(cluster))
    command(cluster, "cluster", "elect", "back")
    assert sorted(row["leader"] for row in rows(cluster, "topic", "describe", "back")) == [1, 2, 3]
    again = command(cluster, "cluster", "elect", "back")
    assert "preferred one already" in again.err


def test_replicas_are_moved_and_the_topic_stays_whole(cluster: ClusterProcess) -> None:
    command(cluster, "topic", "create", "moving", "-p", "2", "-r", "2")
    command(cluster, "produce", "moving", stdin="a\nb\nc\n")
    command(cluster, "cluster", "reassign", "moving:0=3,1", "moving:1=1,2", "--wait")
    found = rows(cluster, "topic", "describe", "moving")
    assert [row["replicas"] for row in found] == [[3, 1], [1, 2]]
    assert all(sorted(row["in_sync"]) == sorted(row["replicas"]) for row in found)
    assert sorted(command(cluster, "consume", "moving", "-e").out.split()) == ["a", "b", "c"]
    planned = rows(
        cluster, "cluster", "reassign", "moving", "--to", "1,2,3", "-r", "3", "--dry-run"
    )
    assert all(len(row["to"]) == 3 for row in planned)
    assert rows(cluster, "cluster", "reassign") == []


def test_a_throttle_is_lifted_when_nothing_moves_any_more(cluster: ClusterProcess) -> None:
    command(cluster, "topic", "create", "slow", "-r", "1")
    command(cluster, "produce", "slow", stdin="a\n" * 1000)
    [here] = rows(cluster, "topic", "describe", "slow")
    there = here["leader"] % 3 + 1
    moving = f"slow:0={there}"
    command(cluster, "cluster", "reassign", moving, "--throttle", "1000000", "--wait")
    assert [row["replicas"] for row in rows(cluster, "topic", "describe", "slow")] == [[there]]
    names = [option["name"] for option in rows(cluster, "topic", "config", "slow")]
    assert not [name for name in names if "throttled" in name]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("cluster", "reassign", "told"), "the target brokers are missing"),
        (("cluster", "reassign", "told", "--to", "9"), "there is no broker 9"),
        (("cluster", "reassign", "told:0=1,1"), "named twice"),
        (("cluster", "reassign", "told:x"), "expected TOPIC"),
        (("cluster", "reassign", "told=1"), "named for a partition"),
        (("cluster", "reassign", "--to", "1"), "name the topics"),
        (("cluster", "elect", "--unclean"), "name the partitions"),
        (("topic", "create", "more", "-r", "9"), "3"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_line(
    cluster: ClusterProcess, words: tuple[str, ...], said: str
) -> None:
    command(cluster, "topic", "create", "told", "-r", "3", "--if-not-exists")
    ended = barnabas(*words, servers=cluster.bootstrap_servers)
    assert ended.code in (1, 2)
    assert said in ended.err
    assert ended.err.count("\n") == 1


def test_two_clusters_do_not_share_a_directory(cluster: ClusterProcess) -> None:
    assert cluster.data is not None
    listen = f"127.0.0.1:{free_ports_from(3)}"
    ended = barnabas("up", "--brokers", "3", "--data", str(cluster.data), "--listen", listen)
    assert ended.code == 1
    assert "in use" in ended.err


def test_the_directory_of_several_brokers_is_not_for_one(cluster: ClusterProcess) -> None:
    assert cluster.data is not None
    one = barnabas("up", "--data", str(cluster.data), "--listen", "127.0.0.1:0")
    assert one.code == 2
    assert "use --brokers 3" in one.err


def test_a_broker_that_stood_alone_becomes_one_of_several(tmp_path: Path) -> None:
    data = tmp_path / "data"
    alone = BrokerProcess(data, log=tmp_path / "log")
    alone.start()
    servers = alone.bootstrap_servers
    assert barnabas("topic", "create", "broker", "-p", "2", servers=servers).code == 0
    assert barnabas("produce", "broker", stdin="old\n", servers=servers).code == 0
    assert alone.stop() == 0
    cluster = ClusterProcess(3, data, log=tmp_path / "log")
    cluster.start()
    try:
        assert "it is broker 1 of 3 now" in cluster.log
        assert sorted(path.name for path in data.glob("broker-?")) == [
            "broker-1",
            "broker-2",
            "broker-3",
        ]
        assert command(cluster, "consume", "broker", "-e").out == "old\n"
        command(cluster, "cluster", "reassign", "broker", "--to", "1,2,3", "-r", "3", "--wait")
        command(cluster, "produce", "broker", "-X", "acks=all", stdin="new\n")
        assert sorted(command(cluster, "consume", "broker", "-e").out.split()) == ["new", "old"]
        assert all(len(row["in_sync"]) == 3 for row in rows(cluster, "topic", "describe", "broker"))
    finally:
        assert cluster.stop() == 0
    cluster.check_log()


def test_all_comes_back_after_a_clean_stop_and_after_a_crash_of_all(tmp_path: Path) -> None:
    cluster = ClusterProcess(3, tmp_path / "data", log=tmp_path / "log")
    cluster.start()
    try:
        command(cluster, "topic", "create", "kept", "-p", "3", "-r", "3")
        command(cluster, "produce", "kept", "-X", "acks=all", stdin="one\n")
        assert cluster.stop() == 0
        cluster.start()
        assert command(cluster, "consume", "kept", "-e").out == "one\n"
        command(cluster, "produce", "kept", "-X", "acks=all", stdin="two\n")
        cluster.kill()
        cluster.start()
        until(lambda: whole(cluster))
        assert sorted(command(cluster, "consume", "kept", "-e").out.split()) == ["one", "two"]
    finally:
        assert cluster.stop() == 0
    cluster.check_log()


def _metrics(port: int) -> dict[str, float]:
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=WAIT_S) as page:
        lines = page.read().decode().splitlines()
    pairs = [line.rpartition(" ") for line in lines if not line.startswith("#")]
    return {name: float(value) for name, _, value in pairs}


def test_an_ephemeral_cluster_serves_its_metrics_and_leaves_nothing_behind() -> None:
    metrics = free_ports_from(2)
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "barnabas", "up", "--ephemeral", "-n", "2"),
            *("--listen", "127.0.0.1:0", "--metrics", f"127.0.0.1:{metrics}"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(3)]
    assert lines[2].startswith("barnabas ready on 127.0.0.1:")
    opened = [os.readlink(file) for file in Path(f"/proc/{process.pid}/fd").iterdir()]
    [lock] = [Path(path) for path in opened if path.endswith("/.lock")]
    directory = lock.parent
    assert (directory / "broker-1").is_dir()
    pages = [_metrics(metrics), _metrics(metrics + 1)]
    assert sum(page["barnabas_controller_active"] for page in pages) == 1
    until(
        lambda: (
            [_metrics(metrics + number)["barnabas_replication_brokers"] for number in range(2)]
            == [2, 2]
        )
    )
    assert all("barnabas_replication_isr_shrinks_total" in page for page in pages)
    process.send_signal(signal.SIGTERM)
    assert process.wait(WAIT_S) == 0
    process.stdout.close()
    assert not directory.exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-n", "3", "-X", "node.id=4"), "use --id"),
        (("-n", "3", "-X", "listeners=PLAINTEXT://:1"), "use --listen"),
        (("-n", "3", "--listen", "127.0.0.1:65534"), "too many"),
        (("-n", "0"), "0"),
        (("--zookeeper", "nowhere"), "nowhere"),
        (("--zookeeper", "a:1,b:2/"), "missing"),
    ],
)
def test_options_that_make_no_sense_are_usage_errors(
    words: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    ended = barnabas("up", "--data", str(tmp_path / "data"), *words)
    assert ended.code == 2
    assert said in ended.err
    assert ended.err.count("\n") == 1


def test_zookeeper_without_its_extra_is_one_clear_line(tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text(
        "import sys\n"
        "class Hide:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name.partition('.')[0] == 'kazoo':\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name='kazoo')\n"
        "sys.meta_path.insert(0, Hide())\n"
    )
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "barnabas", "up", "--zookeeper", "127.0.0.1:1"),
            *("--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0"),
        ],
        env={**os.environ, "PYTHONPATH": f"{hidden}:{os.getcwd()}"},
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert ended.returncode == 1
    assert "pip install 'barnabas[zookeeper]'" in ended.stderr
    assert "Traceback" not in ended.stderr
