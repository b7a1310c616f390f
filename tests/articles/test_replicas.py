"""What the articles say about replicas, the controller and elections, on three brokers."""

import json

import pytest

import barnabas.sync
from barnabas.keeper.memory import MemoryKeeper
from barnabas.model.errors import KafkaError
from barnabas.testing import Kafka
from tests.waiting import WAIT_S

THREE = pytest.mark.kafka(brokers=3)


def state(kafka: Kafka, topic: str = "orders", partition: int = 0) -> dict[str, object]:
    """What the controller wrote about a partition."""
    return dict(node(kafka, f"/brokers/topics/{topic}/partitions/{partition}/state"))


def node(kafka: Kafka, path: str) -> dict[str, object]:
    assert kafka._local is not None
    found: dict[str, object] = json.loads(keeper(kafka).get(path).data)
    return found


def keeper(kafka: Kafka) -> MemoryKeeper:
    assert kafka._local is not None
    return MemoryKeeper(kafka._local._store)


def metric(kafka: Kafka, broker: int, name: str) -> float:
    (line,) = [each for each in kafka.metrics(broker).splitlines() if each.startswith(f"{name} ")]
    return float(line.split()[-1])


def in_sync(kafka: Kafka, topic: str = "orders") -> list[int]:
    return sorted(kafka.admin.topic(topic).partitions[0].in_sync)


def followers(kafka: Kafka) -> list[int]:
    return [broker for broker in (1, 2, 3) if broker != kafka.leader_of("orders")]


@THREE
def test_producers_and_consumers_ask_the_leader_and_followers_copy(kafka: Kafka) -> None:
    kafka.create_topic("orders", replicas=3)
    kafka.produce("orders", ["1", "2"])
    assert kafka.values("orders") == [b"1", b"2"]
    for broker in (1, 2, 3):
        asked = 'barnabas_requests_total{api="Produce"}'
        assert (metric(kafka, broker, asked) > 0) == (broker == kafka.leader_of("orders"))
    kafka.wait_until(lambda: {kafka.replica("orders", 0, n).log_end for n in (1, 2, 3)} == {2})


@pytest.mark.kafka(brokers=3, settings={"replica.lag.time.max.ms": 300_000})
def test_a_record_is_committed_when_every_replica_in_sync_has_it(kafka: Kafka) -> None:
    """And while one does not get it: acks=1 is answered, acks=all waits, readers do not see it."""
    kafka.create_topic("orders", replicas=3, configs={"min.insync.replicas": 1})
    kafka.produce("orders", ["1"])
    leader = kafka.leader_of("orders")
    frozen = next(each for each in followers(kafka) if each != kafka.controller())
    kafka.pause(frozen)
    servers = kafka.bootstrap_servers.split(",")[leader - 1]  # the frozen one answers nobody
    with barnabas.sync.Producer(bootstrap_servers=servers, acks="1") as quick:
        assert quick.send("orders", b"2").offset == 1
    with barnabas.sync.Producer(bootstrap_servers=servers, acks="all") as careful:
        waiting = careful.send_nowait("orders", b"3")
        kafka.wait_until(lambda: kafka.replica("orders", 0, leader).log_end == 3)
        _, high_watermark, log_end = kafka.replica("orders", 0, leader)
        assert (high_watermark, log_end) == (1, 3)
        assert not waiting.done()
        assert kafka.values("orders") == [b"1"]
        kafka.clock.advance(seconds=301)  # replica.lag.time.max.ms
        assert waiting.result(timeout=WAIT_S).offset == 2
    kafka.wait_until(lambda: kafka.values("orders") == [b"1", b"2", b"3"])
    kafka.wait_until(lambda: frozen not in in_sync(kafka))
    kafka.resume()
    kafka.wait_until(lambda: in_sync(kafka) == [1, 2, 3], otherwise="it does not catch up")


@THREE
def test_with_the_leader_alone_in_sync_acks_all_is_acks_1(kafka: Kafka) -> None:
    kafka.create_topic("orders", replicas=3, configs={"min.insync.replicas": 1})
    leader = kafka.leader_of("orders")
    for each in followers(kafka):
        kafka.kill(each)
    kafka.wait_until(lambda: in_sync(kafka) == [leader])
    with barnabas.sync.Producer(bootstrap_servers=kafka.bootstrap_servers, acks="all") as producer:
        assert producer.send("orders", b"1").offset == 0
    assert kafka.replica("orders", 0, leader).high_watermark == 1


@THREE
def test_below_min_insync_replicas_a_producer_gets_an_error(kafka: Kafka) -> None:
    kafka.create_topic("orders", replicas=3, configs={"min.insync.replicas": 2})
    leader = kafka.leader_of("orders")
    for each in followers(kafka):
        kafka.kill(each)
    kafka.wait_until(lambda: len(in_sync(kafka)) < 2 or in_sync(kafka) == [leader])
    with (
        barnabas.sync.Producer(
            bootstrap_servers=kafka.bootstrap_servers, acks="all", retries=0,
        ) as producer,
        pytest.raises(KafkaError, match="NOT_ENOUGH_REPLICAS"),
    ):  # fmt: skip
        producer.send("orders", b"1")


@THREE
def test_a_broker_whose_session_ends_is_dead_and_others_lead_what_it_led(kafka: Kafka) -> None:
    """Exactly the partitions of the dead broker change; their in-sync sets are the survivors."""
    kafka.create_topic("orders", 6, replicas=2)
    before = kafka.admin.topic("orders").partitions
    dead = next(broker for broker in (1, 2, 3) if broker != kafka.controller())
    assert ids(kafka) == [1, 2, 3]
    kafka.pause(dead, session_ends=True)
    kafka.wait_until(lambda: ids(kafka) == [n for n in (1, 2, 3) if n != dead])

    after = before

    def led_by_the_living() -> bool:
        nonlocal after
        after = kafka.admin.topic("orders").partitions
        return all(p.leader not in (dead, -1) and dead not in p.in_sync for p in after)

    kafka.wait_until(led_by_the_living)
    for old, new in zip(before, after, strict=True):
        if old.leader == dead:
            assert new.leader in old.in_sync
            assert sorted(new.in_sync) == [n for n in sorted(old.in_sync) if n != dead]
        else:
            assert new.leader == old.leader
    kafka.resume()


def ids(kafka: Kafka) -> list[int]:
    return sorted(int(each) for each in keeper(kafka).children("/brokers/ids"))


@THREE
def test_without_replicas_the_partitions_of_a_dead_broker_are_gone_until_it_is_back(
    kafka: Kafka,
) -> None:
    kafka.create_topic("orders", 3, replicas=1)
    for partition in range(3):
        kafka.produce("orders", [str(partition)], partition=partition)
    leaders = [each.leader for each in kafka.admin.topic("orders").partitions]
    assert sorted(leaders) == [1, 2, 3], "partitions are spread over the brokers"
    dead = kafka.kill(next(broker for broker in (1, 2, 3) if broker != kafka.controller()))
    kafka.wait_until(lambda: kafka.leader_of("orders", leaders.index(dead)) == -1)
    kafka.start(dead)
    kafka.wait_until(lambda: kafka.leader_of("orders", leaders.index(dead)) == dead)
    assert sorted(kafka.values("orders"), key=str) == [b"0", b"1", b"2"]


@THREE
@pytest.mark.parametrize("unclean", [False, True])
def test_when_all_in_sync_replicas_are_dead_availability_or_consistency_is_chosen(
    kafka: Kafka, unclean: bool
) -> None:
    """Wait for one of the in-sync set, or take the first that lives and lose records."""
    options = {"unclean.leader.election.enable": unclean, "min.insync.replicas": 1}
    kafka.create_topic("orders", replicas=2, configs=options)
    kafka.produce("orders", ["1"])
    leader = kafka.leader_of("orders")
    (follower,) = [n for n in kafka.admin.topic("orders").partitions[0].replicas if n != leader]
    kafka.kill(follower)
    kafka.wait_until(lambda: in_sync(kafka) == [leader])
    kafka.produce("orders", ["2"])
    kafka.kill(leader)
    kafka.start(follower)
    if unclean:
        kafka.wait_until(lambda: kafka.leader_of("orders") == follower)
        kafka.wait_until(lambda: kafka.values("orders") == [b"1"])  # the last record is lost
        return
    kafka.wait_until(lambda: follower in [b.id for b in kafka.admin.cluster().brokers])
    kafka.wait_until(lambda: kafka.leader_of("orders") == -1)
    assert state(kafka)["isr"] == [leader]
    kafka.start(leader)
    kafka.wait_until(lambda: kafka.leader_of("orders") == leader)
    assert kafka.values("orders") == [b"1", b"2"]


@THREE
def test_f_failures_of_f_plus_one_replicas_lose_nothing(kafka: Kafka) -> None:
    """Two of three brokers die one after the other: the third has all that was committed."""
    kafka.create_topic("orders", replicas=3, configs={"min.insync.replicas": 1})
    for number in range(2):
        kafka.produce("orders", [str(number)])
        leader = kafka.kill(leader_of=("orders", 0))
        kafka.wait_until(lambda: kafka.leader_of("orders") not in (leader, -1))  # noqa: B023
        kafka.wait_until(lambda: leader not in in_sync(kafka))  # noqa: B023
    kafka.produce("orders", ["2"])
    assert kafka.values("orders") == [b"0", b"1", b"2"]


@THREE
def test_one_controller_is_elected_and_another_when_it_dies(kafka: Kafka) -> None:
    """The broker that created /controller is it; its metric and all brokers say so."""
    kafka.create_topic("orders", 3, replicas=3)
    first = kafka.controller()
    assert node(kafka, "/controller")["brokerid"] == first
    active = {broker: metric(kafka, broker, "barnabas_controller_active") for broker in (1, 2, 3)}
    assert active == {broker: float(broker == first) for broker in (1, 2, 3)}
    epoch = int(keeper(kafka).get("/controller_epoch").data)
    kafka.kill(controller=True)
    kafka.wait_until(lambda: kafka.controller() not in (first, -1))
    second = kafka.controller()
    kafka.wait_until(lambda: node(kafka, "/controller")["brokerid"] == second)
    assert int(keeper(kafka).get("/controller_epoch").data) > epoch
    kafka.create_topic("later", 1, replicas=2)
    assert kafka.leader_of("later") != -1, "the new controller makes topics"


@THREE
def test_the_tree_of_nodes_is_kafkas(kafka: Kafka) -> None:
    kafka.create_topic("orders", 2, replicas=3, configs={"retention.ms": 1000})
    paths = set(keeper(kafka).children("/"))
    assert {"brokers", "controller", "controller_epoch", "config", "admin", "cluster"} <= paths
    assert ids(kafka) == [1, 2, 3]
    assert keeper(kafka).children("/brokers/topics/orders/partitions") == ["0", "1"]
    found = state(kafka)
    assert {"leader", "isr", "leader_epoch", "controller_epoch"} <= set(found)
    assert found["leader"] == kafka.leader_of("orders")
    assert sorted(found["isr"]) == [1, 2, 3]  # type: ignore[call-overload]
    assert node(kafka, "/config/topics/orders")["config"] == {"retention.ms": "1000"}


@THREE
def test_each_change_of_the_in_sync_set_is_written_by_the_controller(kafka: Kafka) -> None:
    kafka.create_topic("orders", replicas=3)
    dead = kafka.kill(next(each for each in followers(kafka) if each != kafka.controller()))
    kafka.wait_until(lambda: dead not in state(kafka)["isr"])  # type: ignore[operator]
    kafka.start(dead)
    kafka.wait_until(lambda: dead in state(kafka)["isr"])  # type: ignore[operator]


@THREE
def test_a_reader_of_partitions_learns_the_leader_and_follows_it(kafka: Kafka) -> None:
    """The duties of a low-level consumer: offsets, leaders, and what to do when they change."""
    kafka.create_topic("orders", replicas=3)
    kafka.produce("orders", ["1"])
    at = ("orders", 0)
    server = kafka.bootstrap_servers.split(",")[0]
    with barnabas.sync.PartitionConsumer(
        [at], bootstrap_servers=server, auto_offset_reset="earliest"
    ) as reader:
        assert reader.leader(at) == kafka.leader_of("orders")
        assert reader.getone(timeout=WAIT_S).value == b"1"
        killed = kafka.kill(leader_of=at)
        kafka.produce("orders", ["2"])
        assert reader.getone(timeout=WAIT_S).value == b"2"
        assert reader.leader(at) not in (killed, -1)
    assert sorted(kafka.admin.topic("orders").partitions[0].replicas) == [1, 2, 3]
    kafka.wait_until(lambda: killed not in in_sync(kafka))


@THREE
def test_followers_copy_in_batches(kafka: Kafka) -> None:
    kafka.create_topic("orders", replicas=3)
    leader = kafka.leader_of("orders")
    fetches = 'barnabas_requests_total{api="Fetch"}'
    before = metric(kafka, leader, fetches)
    with barnabas.sync.Producer(
        bootstrap_servers=kafka.bootstrap_servers, acks="all", linger_ms=60_000
    ) as producer:
        for number in range(2_000):
            producer.send_nowait("orders", b"%d" % number)
        producer.flush()
    ends = [kafka.replica("orders", 0, broker).log_end for broker in (1, 2, 3)]
    assert ends == [2_000, 2_000, 2_000], "acks=all: they have it when produce returns"
    assert metric(kafka, leader, fetches) - before < 1_000, "two followers, 2,000 records"
