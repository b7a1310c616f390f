"""The suite "groups": coming together, staying together, committing and coming back.

In: settings. Out: tables beside Apache Kafka. Real members are librdkafka's; where thousands are
wanted they are frames on the wire (herd.py).
"""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from barnabas.wire.messages.offset_commit import OffsetCommitRequest
from barnabas.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from bench import herd
from bench.figures import P50, P99, Goal, Ratios, Sample, Samples, Table
from bench.sides import BARNABAS, KAFKA, Side, directory
from bench.suite import Pace, Settings, Suite, Workload, compare, rows_of, say
from tests.ports import free_ports_from
from tests.process import BrokerProcess
from tests.support import kafka
from tests.support.cache import ROOT

SECONDS = "s"
CPU_S = "broker CPU s"
CPU_SHARE = "broker CPU, cores"
COMMITS_PER_S = "commits/s"
CPU_COMMIT = "broker CPU µs/commit"
MEMORY = "memory MB"

MEMBERS = 100
PARTITIONS = 1_000
WIDE = "thousand-partitions"

HERD_GROUPS, HERD_MEMBERS = 500, 10
HEARTBEAT_S = 3.0  # librdkafka's and Java's default interval
COMMITTERS = 50

LOAD_GROUPS = 1_000
LOAD_PARTITIONS = 1_000
LOAD_PER_COMMIT = 10
ASKED_FOR = 200  # of the groups
FETCH = 8  # version
_LOAD_TOPIC = "loaded"


# A hundred members


def _share(protocol: str) -> Workload:
    label = f"100 members, 1,000 partitions, {'classic' if protocol == 'classic' else 'new'}"

    def run(side: Side, _scale: float) -> Iterator[Samples]:
        if not side.has_topic(WIDE):
            side.create_topic(WIDE, PARTITIONS)
        cpu = side.cpu_s()
        group = f"share-{time.time_ns()}"
        done = subprocess.run(
            [
                *(sys.executable, "-m", "bench.members", side.bootstrap_servers, WIDE),
                *(str(PARTITIONS), group, protocol, str(MEMBERS)),
            ],
            cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            say(f"  {side.name}: {label}: {done.stderr.strip().splitlines()[-1]}")
            yield {}
            return
        sample = {SECONDS: float(done.stdout), CPU_S: side.cpu_s() - cpu}
        yield {label: sample}

    name = "join-classic" if protocol == "classic" else "join-new"
    return Workload(name, (label,), run)


# Five thousand members that live


def _heartbeats() -> Workload:
    label = f"{HERD_GROUPS * HERD_MEMBERS:,} members heartbeat"
    herds: dict[str, herd.Herd] = {}

    def run(side: Side, scale: float) -> Iterator[Samples]:
        if side.bootstrap_servers not in herds:
            herds[side.bootstrap_servers] = herd.Herd(
                side.bootstrap_servers, HERD_GROUPS, HERD_MEMBERS
            )
        cpu = side.cpu_s()
        beats = herds[side.bootstrap_servers].heartbeat(HEARTBEAT_S, 10 * scale)
        spent = side.cpu_s() - cpu
        sample = {CPU_SHARE: spent / beats.seconds, P50: beats.p50_ms, P99: beats.p99_ms}
        yield {label: sample}

    return Workload("heartbeat", (label,), run)


# Commits


def _commits(label: str, partitions: int, commits: int) -> Workload:
    def run(side: Side, scale: float) -> Iterator[Samples]:
        count = int(commits * scale)
        servers = side.bootstrap_servers
        with side.topic(partitions) as topic:
            cpu = side.cpu_s()
            seconds = herd.commit_over_and_over(servers, topic, partitions, COMMITTERS, count)
            spent = side.cpu_s() - cpu
        sample = {COMMITS_PER_S: count / seconds, CPU_COMMIT: spent / count * 1e6}
        yield {label: sample}

    return Workload("commit" if partitions == 1 else f"commit-{partitions}", (label,), run)


# A million offsets read back


def _fill(servers: str, groups: int) -> None:
    """Commit for every group and partition, a few partitions at a time, as members do."""
    side = Side("", servers, 0)
    side.create_topic(_LOAD_TOPIC, LOAD_PARTITIONS)
    lines = [herd.Line(servers) for _ in range(COMMITTERS)]
    herd.open_coordinator(lines[0], "loaded-0")
    for number in range(groups):
        herd.commit(lines[0], herd.commit_request(f"loaded-{number}", _LOAD_TOPIC, range(1)))
    work = [
        (f"loaded-{group}", range(first, first + LOAD_PER_COMMIT))
        for group in range(groups)
        for first in range(0, LOAD_PARTITIONS, LOAD_PER_COMMIT)
    ]
    for at in range(0, len(work), len(lines)):
        turn = list(zip(lines, work[at : at + len(lines)], strict=False))
        for line, (group, partitions) in turn:
            line.send(herd.commit_request(group, _LOAD_TOPIC, partitions), herd.COMMIT)
        for line, _ in turn:
            herd.check_commit(line.receive(OffsetCommitRequest, herd.COMMIT))
    for line in lines:
        line.socket.close()


def _wait_loaded(servers: str, groups: int) -> None:
    """Until OffsetFetch answers for groups of every shard; asking must cost next to nothing."""
    request = OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(
                group_id=f"loaded-{group}",
                topics=[OffsetFetchRequestTopics(name=_LOAD_TOPIC, partition_indexes=[999])],
            )
            for group in range(0, groups, max(1, groups // ASKED_FOR))
        ]
    )
    deadline = time.perf_counter() + 120
    line = herd.Line(servers)
    while True:
        answer = line.call(request, FETCH)
        assert isinstance(answer, OffsetFetchResponse)
        codes = {group.error_code for group in answer.groups}
        if codes == {0}:
            break
        if time.perf_counter() > deadline:
            raise TimeoutError(f"offsets not loaded: {codes}")
        time.sleep(0.02)
    for group in answer.groups:
        assert group.topics[0].partitions[0].committed_offset == 4711, group
    line.socket.close()


def _kafka_start(home: Path) -> tuple[Callable[[], tuple[str, int]], Callable[[], object]]:
    properties, port = kafka.prepare(home)
    running: list[kafka.KafkaBroker] = []

    def start() -> tuple[str, int]:
        running.append(kafka.start(properties, port))
        return running[0].bootstrap_servers, running[0].pid

    def stop() -> None:
        running.pop().stop()

    return start, stop


def _own_start(home: Path) -> tuple[Callable[[], tuple[str, int]], Callable[[], object]]:
    home.mkdir()
    port = free_ports_from(1)
    broker = BrokerProcess(home / "data", port=port, log=home / "log")

    def start() -> tuple[str, int]:
        broker.start()
        return broker.bootstrap_servers, broker.pid

    return start, broker.stop


def _load(settings: Settings) -> list[Table]:
    """Restarts in turn; both have the same commits in their logs."""
    groups = LOAD_GROUPS // 5 if settings.quick else LOAD_GROUPS
    label = f"{groups * LOAD_PARTITIONS:,} offsets, restart to OffsetFetch"
    rounds: list[dict[str, Samples]] = []
    with directory("ram") as base:
        controls = {
            name: (_kafka_start if name == KAFKA else _own_start)(base / name)
            for name in settings.sides
        }
        for name, (start, stop) in controls.items():
            say(f"{groups * LOAD_PARTITIONS:,} offsets into {name}")
            _fill(start()[0], groups)
            stop()
        for _ in range(settings.rounds or (2 if settings.quick else 5)):
            one: dict[str, Samples] = {}
            for name, (start, stop) in controls.items():
                started = time.perf_counter()
                servers, pid = start()
                answered = time.perf_counter()
                _wait_loaded(servers, groups)
                loaded = time.perf_counter()
                side = Side(name, servers, pid)
                sample: Sample = {
                    SECONDS: loaded - started,
                    "s after the first Metadata": loaded - answered,
                    CPU_S: side.cpu_s(),
                    MEMORY: side.rss_mb(),
                }
                say(f"  {name:9} {sample}")
                one[name] = {label: sample}
                stop()
            rounds.append(one)
    goals: Ratios = {(label, SECONDS): Goal(most=1.0)}
    workload = Workload("load", (label,), lambda _side, _scale: iter(()))
    rows = rows_of([workload], rounds, goals)
    return [Table("Loading after a restart: on a ram-backed directory", rows)]


SHARES = (_share("classic"), _share("consumer"))
LIVES = (
    _heartbeats(),
    _commits("one partition, 50 groups", 1, 50_000),
    _commits("ten partitions, 50 groups", 10, 25_000),
)
GOALS: Ratios = {
    **{(share.measures[0], SECONDS): Goal(most=0.7) for share in SHARES},
    (LIVES[0].measures[0], CPU_SHARE): Goal(most=0.5),
    (LIVES[0].measures[0], P99): Goal(most=1.0),
    ("one partition, 50 groups", COMMITS_PER_S): Goal(least=1.5),
}
DELAY_MS = "group.initial.rebalance.delay.ms"
FULL = Pace(rounds=5, warm_up_passes=6, scale=1.0, places=("ram",))
QUICK = Pace(rounds=3, warm_up_passes=3, scale=0.4, places=("ram",))


def _run(settings: Settings) -> list[Table]:
    pace = QUICK if settings.quick else FULL
    tables = []
    for title, workloads, options in (
        ("A hundred members of librdkafka", SHARES, {DELAY_MS: "0"}),
        ("Five thousand members, and commits", LIVES, {DELAY_MS: "3000"}),
    ):
        found = compare(settings, workloads, GOALS, pace, {BARNABAS: options, KAFKA: options})
        tables += [Table(f"{title}: {table.title.lower()}", table.rows) for table in found]
    if settings.wants("load"):
        tables += _load(settings)
    return tables


SUITE = Suite(
    name="groups",
    title="Groups: coming together, staying together, committing, coming back",
    how=(
        f"{FULL.rounds} interleaved rounds after {FULL.warm_up_passes} to warm up, both brokers up "
        "at once. A hundred consumers of librdkafka in one process, with its defaults, subscribe "
        "at once (`group.initial.rebalance.delay.ms=0` on both). Five thousand members are "
        "connections of a generator, ten to a group, each with a heartbeat every three seconds. "
        "Commits come from 50 connections, each of which waits for its reply. For loading, a "
        "thousand groups have committed a thousand partitions each, ten at a time; the time runs "
        "from the start of the process. A ratio is the median of the rounds' ratios, Barnabas to "
        "Kafka."
    ),
    parts=(*(workload.name for workload in (*SHARES, *LIVES)), "load"),
    run=_run,
)
