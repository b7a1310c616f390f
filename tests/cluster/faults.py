"""The kinds of faults: each hurts a cluster, lets some time pass, and mends what it did.

In: a cluster that is whole, chance, and how to see whether all partitions go on. Out: a line that
says what was done.
Always: one disk is hurt at a time, and two in sync are left: nothing acknowledged may be lost.
"""

import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from random import Random

from tests.cluster.members import SESSION_MS, ZOOKEEPER, Cluster

SHORT_S = 0.4
SESSION_S = SESSION_MS / 1000

Goes = Callable[[], None]
"""Waits until records are acknowledged in every partition again."""
Fault = Callable[[Cluster, Random, Goes], str]


def _victim(cluster: Cluster, random: Random) -> int:
    """Who controls, who leads, or anyone."""
    how = random.random()
    if how < 0.3:
        controller = cluster.controller()
        if controller in cluster.members:
            return controller
    if how < 0.8:
        leaders = [state.leader for state in cluster.states().values() if state.leader > 0]
        if leaders:
            return random.choice(leaders)
    return random.choice(list(cluster.members))


def kill(cluster: Cluster, random: Random, goes: Goes) -> str:
    """kill -9; back at once, or when others have taken over."""
    number = _victim(cluster, random)
    member = cluster.members[number]
    member.kill()
    how = random.choice(("at once", "soon", "when others lead"))
    if how == "soon":
        time.sleep(random.uniform(0, SHORT_S))
    elif how == "when others lead":
        goes()
    member.start()
    return f"killed {number}, back {how}"


def pause(cluster: Cluster, random: Random, goes: Goes) -> str:
    """SIGSTOP for longer than the session, or nearly."""
    number = _victim(cluster, random)
    seconds = SESSION_S * random.choice((0.5, 1.3, 1.6, 2.0))
    cluster.members[number].signal(signal.SIGSTOP)
    time.sleep(seconds)
    cluster.members[number].signal(signal.SIGCONT)
    return f"stopped {number} for {seconds:.1f} s"


def isolate(cluster: Cluster, random: Random, goes: Goes) -> str:
    """From all other brokers, both ways; from ZooKeeper too, or not."""
    number = _victim(cluster, random)
    return _cut(cluster, random, number, outward=True, inward=True)


def one_way(cluster: Cluster, random: Random, goes: Goes) -> str:
    """It is heard and hears nothing, or hears and is not heard."""
    number = _victim(cluster, random)
    outward = random.random() < 0.5
    return _cut(cluster, random, number, outward=outward, inward=not outward)


def isolated_leader(cluster: Cluster, random: Random, goes: Goes) -> str:
    """Clients and the keeper still reach it; no follower does, or one only."""
    states = [state for state in cluster.states().values() if state.leader in cluster.members]
    number = random.choice(states).leader
    others = cluster.others(number)
    if random.random() < 0.3:
        others = random.sample(others, len(others) - 1)
    me = f"broker-{number}"
    cluster.network.cut(*[(me, other) for other in others], *[(other, me) for other in others])
    seconds = _hold(cluster, random)
    return f"leader {number} cut from {', '.join(others)} for {seconds:.1f} s"


def _cut(cluster: Cluster, random: Random, number: int, *, outward: bool, inward: bool) -> str:
    me, others = f"broker-{number}", cluster.others(number)
    with_keeper = cluster.zookeeper is not None and random.random() < 0.6
    if with_keeper:
        others = [*others, ZOOKEEPER]
    ways = [(me, other) for other in others] if outward else []
    ways += [(other, me) for other in others] if inward else []
    cluster.network.cut(*ways)
    seconds = _hold(cluster, random)
    direction = "both ways" if outward and inward else "outward" if outward else "inward"
    keeper = ", ZooKeeper too" if with_keeper else ""
    return f"{number} cut {direction} for {seconds:.1f} s{keeper}"


def _hold(cluster: Cluster, random: Random) -> float:
    seconds = SESSION_S * random.choice((0.3, 0.9, 1.5, 2.0))
    time.sleep(seconds)
    cluster.network.heal(breaking=random.random() < 0.5)
    return seconds


def emptied_disk(cluster: Cluster, random: Random, goes: Goes) -> str:
    """Killed, and back with nothing on its disk: at once, while others think it has everything."""
    number = _victim(cluster, random)
    member = cluster.members[number]
    member.kill()
    member.empty_disk()
    wait = random.random() < 0.4
    if wait:
        goes()
    member.start()
    return f"emptied {number}, back {'when others lead' if wait else 'at once'}"


def lost_disk(cluster: Cluster, random: Random, goes: Goes) -> str:
    """Its files go from under it while it runs; then it dies, and gets a new disk."""
    number = _victim(cluster, random)
    member = cluster.members[number]
    member.empty_disk()
    time.sleep(random.uniform(0, SHORT_S))
    member.kill()
    member.empty_disk()  # what it still wrote
    goes()
    member.start()
    return f"disk of {number} lost"


def all_killed_one_emptied(cluster: Cluster, random: Random, goes: Goes) -> str:
    """All are killed, one gets an empty disk, all are started: the emptied one first, or last, or
    all at once. The others have everything; each broker is emptied in turn."""
    number = cluster.next_to_empty()
    order = random.sample(list(cluster.members), len(cluster.members))
    for each in order:
        cluster.members[each].kill()
    emptied = cluster.members[number]
    emptied.empty_disk()
    how = random.choice(("first", "last", "with the others"))
    others = [member for member in cluster.members.values() if member is not emptied]
    if how == "first":
        emptied.start()
    with ThreadPoolExecutor(len(cluster.members)) as starting:
        both = others if how in ("first", "last") else [emptied, *others]
        list(starting.map(lambda member: member.start(), both))
    if how == "last":
        goes()
        emptied.start()
    return f"killed {order}, emptied {number}, which was started {how}"


def rolling_restart(cluster: Cluster, random: Random, goes: Goes) -> str:
    """SIGTERM, one after the other, each back in sync before the next."""
    order = random.sample(list(cluster.members), len(cluster.members))
    for number in order:
        member = cluster.members[number]
        code = member.stop()
        assert code == 0, f"broker {number} ended with {code} after SIGTERM: {member.log[-2000:]}"
        member.start()
        cluster.wait_whole()
    return f"restarted {order}"


def zookeeper_killed(cluster: Cluster, random: Random, goes: Goes) -> str:
    """The ensemble itself; leaders go on with what they know."""
    server = cluster.zookeeper
    assert server is not None
    server.kill()
    seconds = SESSION_S * random.choice((0.1, 0.7, 1.5))
    time.sleep(seconds)
    server.start()
    return f"ZooKeeper down for {seconds:.1f} s"


KINDS: dict[str, Fault] = {
    "kill": kill,
    "pause": pause,
    "isolate": isolate,
    "one-way": one_way,
    "isolated-leader": isolated_leader,
    "emptied-disk": emptied_disk,
    "lost-disk": lost_disk,
    "all-killed-one-emptied": all_killed_one_emptied,
    "rolling-restart": rolling_restart,
    "zookeeper-killed": zookeeper_killed,
}
NEEDS_ZOOKEEPER = ("zookeeper-killed",)
DISK_KINDS = ("emptied-disk", "lost-disk", "all-killed-one-emptied")


def kinds_for(keeper: str) -> list[str]:
    return [kind for kind in KINDS if keeper == ZOOKEEPER or kind not in NEEDS_ZOOKEEPER]


def parse_kinds(text: str, keeper: str) -> list[str]:
    """Names with commas between; empty: all."""
    wanted = [word for word in text.split(",") if word]
    if unknown := [word for word in wanted if word not in KINDS]:
        raise SystemExit(f"no such fault: {', '.join(unknown)}; there are {', '.join(KINDS)}")
    return [kind for kind in wanted or kinds_for(keeper) if kind in kinds_for(keeper)]
