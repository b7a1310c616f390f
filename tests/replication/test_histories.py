"""Random histories of one partition: whatever happens, what was acknowledged is there.

More of them: REPLICATION_SEEDS=10000.
"""

import os

import pytest

from barnabas.model.ids import BrokerId
from barnabas.replication.state import NO_LEADER
from tests.replication.world import World

SEEDS = int(os.environ.get("REPLICATION_SEEDS", "60"))
STEPS = 600


def step(world: World) -> None:
    random = world.random
    world.now += random.choice((0, 1, 5, 50, 400))
    alive = [each for each in world.brokers.values() if each.alive]
    leaders = [each for each in alive if each.leading is not None]
    followers = [each for each in alive if each.following is not None]
    kind = random.choices(
        ("hear", "produce", "ask", "serve", "take", "judge", "answer", "tick", "elect", "kill",
         "revive", "again", "drop", "checkpoint"),
        (14, 10, 22, 24, 24, 8, 8, 6, 1.2, 0.8, 4, 1, 2, 2),
    )[0]  # fmt: skip
    if kind == "hear" and world.words:
        world.hear()
    elif kind == "produce" and leaders:
        world.produce(random.choice(leaders))
    elif kind == "ask" and followers:
        world.ask(random.choice(followers))
    elif kind == "serve" and world.fetches:
        world.serve()
    elif kind == "take" and world.replies:
        world.take()
    elif kind == "judge" and world.proposals:
        world.judge()
    elif kind == "answer" and world.answers:
        world.answer()
    elif kind == "tick":
        for broker in leaders:
            assert broker.leading is not None
            proposal = broker.leading.tick(world.now)
            if proposal is not None:
                world.proposals.append((broker.id, broker.incarnation, proposal))
            world.commit(broker)
    elif kind == "elect":
        world.elect()
    elif kind == "kill" and len(alive) > 1:
        broker = random.choice(alive)
        others = [each for each in world.state.isr if each != broker.id]
        safe = any(world.brokers[each].alive for each in others)
        world.kill(broker, wipe=safe and random.random() < 0.3)
    elif kind == "revive":
        dead = [each for each in world.brokers.values() if not each.alive]
        if dead:
            world.revive(random.choice(dead))
    elif kind == "again" and leaders:
        world.repropose(random.choice(leaders))
    elif kind == "drop":
        for queue in (world.fetches, world.replies, world.answers):
            if queue and random.random() < 0.5:
                queue.pop(random.randrange(len(queue)))
    elif kind == "checkpoint":
        for broker in alive:
            broker.checkpoint = broker.high_watermark


def check(world: World) -> None:
    state = world.state
    assert set(state.isr) <= set(state.replicas)
    for id_ in state.isr:
        log = world.brokers[id_].log
        for offset, record in world.acknowledged.items():
            # Each in-sync replica may lead next.
            assert offset < len(log), f"broker {id_} is in sync without {offset}"
            assert log[offset] == record, f"broker {id_} has another record at {offset}"
    marks = [b for b in world.brokers.values() if b.alive and b.id in state.isr]
    for one in marks:
        for other in marks:
            mark = min(one.high_watermark, other.high_watermark)
            assert one.log[:mark] == other.log[:mark], f"{one.id} and {other.id} below {mark}"


@pytest.mark.parametrize("chunk", range(6))
def test_no_acknowledged_record_is_lost_whatever_the_order(chunk: int) -> None:
    for seed in range(chunk, SEEDS, 6):
        world = World(seed, brokers=3 if seed % 3 else 5)
        try:
            for _ in range(STEPS):
                step(world)
                check(world)
        except AssertionError as problem:
            raise AssertionError(
                f"seed {seed}: {problem}\n" + "\n".join(world.transcript)
            ) from problem


@pytest.mark.parametrize("seed", range(10))
def test_once_faults_end_everything_is_committed_and_everybody_in_sync(seed: int) -> None:
    world = World(1000 + seed)
    for _ in range(300):
        step(world)
    for broker in world.brokers.values():
        if not broker.alive:
            world.revive(broker)
    for _ in range(400):
        world.now += 20
        while world.words:
            world.hear()
        for broker in world.brokers.values():
            if broker.following is not None:
                world.ask(broker)
            if broker.leading is not None:
                world.repropose(broker)
        while world.fetches:
            world.serve()
        while world.replies:
            world.take()
        while world.proposals:
            world.judge()
        while world.answers:
            world.answer()
    assert world.state.leader != NO_LEADER
    leader = world.brokers[BrokerId(world.state.leader)]
    assert sorted(world.state.isr) == sorted(world.brokers), "\n".join(world.transcript)
    assert leader.high_watermark == len(leader.log)
    assert all(each.log == leader.log for each in world.brokers.values())
