"""A broker whose event loop hangs in a call, while its process and its threads go on.

Others lead its partitions when its session has ended, as if it had died: its threads do not keep
the session. A controller loses its office likewise. When the loop turns again, the broker acts on
nothing it led before.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from barnabas.wire.frames import read_response
from barnabas.wire.messages.produce import ProduceRequest, ProduceResponse
from barnabas.wire.records import decode_batch, iter_batches
from tests.cluster.members import Cluster, Member
from tests.raw import RawClient, batch_of, name_of, produce_request, records_in
from tests.waiting import until

SESSION_MS = 10_000  # so long that the others keep theirs
TOPIC = "orders"
PARTITIONS = 6
PRODUCE = 9

# The signal's handler runs on the loop's thread, and waits there for a writer of the pipe.
_HANGS_ON_A_SIGNAL = """
import os, signal
def hang(*_):
    with open(os.environ["HANG_ON"], "rb") as pipe:
        pipe.read()
signal.signal(signal.SIGUSR1, hang)
"""


@pytest.fixture(params=["file", "zookeeper"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    (tmp_path / "preload").mkdir()
    (tmp_path / "preload" / "sitecustomize.py").write_text(_HANGS_ON_A_SIGNAL)
    server = request.getfixturevalue("zookeeper") if request.param == "zookeeper" else None
    home = tmp_path / f"{tmp_path.name}-{request.param}"  # a root of its own in ZooKeeper
    options = {"zookeeper.session.timeout.ms": str(SESSION_MS)}
    cluster = Cluster(home, 3, server, options)
    for member in cluster.members.values():
        pipe = tmp_path / f"hang-{member.number}"
        os.mkfifo(pipe)
        member._env |= {"PYTHONPATH": str(tmp_path / "preload"), "HANG_ON": str(pipe)}
    try:
        cluster.start()
        cluster.create_topic(TOPIC, PARTITIONS)
        yield cluster
        for member in cluster.members.values():
            member.check_log()
    finally:
        cluster.abandon()


@contextmanager
def wedged(member: Member) -> Iterator[None]:
    """Its loop hangs; at the end it turns again."""
    path = member._env["HANG_ON"]
    member.signal(signal.SIGUSR1)
    pipe = -1

    def hangs() -> bool:
        nonlocal pipe
        with suppress(OSError):  # nobody reads it yet
            pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        return pipe >= 0

    until(hangs, f"broker {member.number} does not hang")
    try:
        yield
    finally:
        os.close(pipe)


def leaders(asked: Member) -> tuple[int, dict[int, int]]:
    """The controller, and the leader of each partition, as this broker tells it."""
    with RawClient("127.0.0.1", asked.listen) as client:
        answer = client.metadata()
    [topic] = [each for each in answer.topics if each.name == TOPIC]
    return answer.controller_id, {p.partition_index: p.leader_id for p in topic.partitions}


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("victim_is", ["a leader", "the controller"])
def test_others_take_over_from_a_broker_whose_loop_hangs(cluster: Cluster, victim_is: str) -> None:
    cluster.wait_whole()
    controller, led = leaders(cluster.members[1])
    others = [leader for leader in led.values() if leader != controller]
    victim = cluster.members[controller if victim_is == "the controller" else others[0]]
    survivors = [each for each in cluster.members.values() if each is not victim]
    partition = next((each for each, leader in led.items() if leader == victim.number), 0)

    def taken_over() -> bool:
        for survivor in survivors:
            controller, led = leaders(survivor)
            if not {controller, *led.values()}.isdisjoint((victim.number, -1)):
                return False
        return True

    def write(value: bytes) -> str:
        _, led = leaders(survivors[0])
        with RawClient("127.0.0.1", cluster.members[led[partition]].listen) as client:
            written = client.produce(TOPIC, batch_of(value), partition=partition)
        return name_of(written.error_code)

    late = RawClient("127.0.0.1", victim.listen)
    with wedged(victim):
        until(taken_over, lambda: leaders(survivors[0]))
        until(lambda: write(b"kept") == "NONE", lambda: leaders(survivors[0]))
        # The broker finds this as soon as its loop turns again, and must not acknowledge it.
        late.begin(produce_request(TOPIC, partition, batch_of(b"late")), PRODUCE)
    _, answer = read_response(late.receive(), ProduceRequest.api_key, PRODUCE)
    late.close()
    assert isinstance(answer, ProduceResponse)
    assert name_of(answer.responses[0].partition_responses[0].error_code) != "NONE"
    cluster.wait_whole()
    assert "event loop was blocked" in victim.log
    with cluster.leader_client((TOPIC, partition)) as client:
        found = records_in(client.fetch(TOPIC, 0, partition=partition))
    values = [
        bytes(record.value or b"")
        for _, batch in iter_batches(found)
        for record in decode_batch(batch)
    ]
    assert set(values) == {b"kept"}
