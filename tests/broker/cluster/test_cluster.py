"""Brokers that come, go, lose their session, and tell clients of each other."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from barnabas.assignment.group import AssignableTopic
from barnabas.broker.groups.ports import TopicsSeen
from barnabas.keeper import paths
from barnabas.keeper.keeper import Event, SessionState
from barnabas.keeper.memory import MemoryKeeper
from barnabas.model.errors import Code, Failed, Retriable
from barnabas.model.ids import NO_TOPIC_ID
from barnabas.wire.messages import alter_configs
from barnabas.wire.messages.alter_partition import AlterPartitionRequest
from barnabas.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.wire.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from barnabas.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from barnabas.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from barnabas.wire.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from barnabas.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from barnabas.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicState,
)
from barnabas.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from barnabas.wire.messages.produce import ProduceResponse
from barnabas.wire.messages.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
    UpdateMetadataTopicState,
)
from tests.broker.clustered import Clustered, cluster_of
from tests.broker.handlers.test_produce import batch, produce
from tests.broker.running import creatable, running_broker
from tests.waiting import eventually

TOPIC, BROKER, GROUP = 2, 4, 32  # kinds of resources
CLUSTER = DescribeClusterRequest(include_cluster_authorized_operations=False)


async def metadata(clustered: Clustered, at: int, name: str) -> MetadataResponseTopic:
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False
    )
    return (await clustered.ask(at, request, MetadataResponse)).topics[0]


async def alter(clustered: Clustered, at: int, kind: int, name: str, **settings: str) -> int:
    changes = [
        AlterableConfig(name=option.replace("_", "."), config_operation=0, value=value)
        for option, value in settings.items()
    ]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=changes)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    answer = await clustered.ask(at, request, IncrementalAlterConfigsResponse)
    return answer.responses[0].error_code


async def replace(clustered: Clustered, at: int, kind: int, name: str, **settings: str) -> int:
    changes = [
        alter_configs.AlterableConfig(name=option.replace("_", "."), value=value)
        for option, value in settings.items()
    ]
    resource = alter_configs.AlterConfigsResource(
        resource_type=kind, resource_name=name, configs=changes
    )
    request = alter_configs.AlterConfigsRequest(resources=[resource], validate_only=False)
    answer = await clustered.ask(at, request, alter_configs.AlterConfigsResponse)
    return answer.responses[0].error_code


async def described(clustered: Clustered, at: int, kind: int, name: str, option: str) -> str | None:
    asked = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=[option]
    )
    request = DescribeConfigsRequest(resources=[asked])
    answer = await clustered.ask(at, request, DescribeConfigsResponse)
    assert not answer.results[0].error_code, answer.results[0].error_message
    return answer.results[0].configs[0].value


def without_news_of_settings(clustered: Clustered, id_: int) -> None:
    """As if what the keeper has to say of changes were still on its way."""
    session = clustered.sessions[id_]._session
    assert session is not None
    tell = session.listener
    assert tell is not None

    def listener(news: Event | SessionState) -> None:
        if not isinstance(news, Event) or news.path != paths.CONFIG_CHANGES:
            tell(news)

    session.listener = listener


@contextmanager
def kept_apart(clustered: Clustered, *ids: int) -> Iterator[None]:
    """From the keeper."""
    for id_ in ids:
        clustered.disconnect(id_)
    try:
        yield
    finally:
        for id_ in ids:
            clustered.reconnect(id_)


def others(clustered: Clustered, than: int) -> list[int]:
    return [id_ for id_ in clustered.brokers if id_ != than]


async def controller_of(clustered: Clustered) -> int:
    await eventually(lambda: clustered.controller() is not None)
    found = clustered.controller()
    assert found is not None
    return found


def epoch(clustered: Clustered, id_: int) -> int:
    cluster = clustered.brokers[id_].cluster
    assert cluster is not None
    return cluster.broker_epoch


async def test_every_broker_reports_all_brokers_their_racks_and_one_controller(
    tmp_path: Path,
) -> None:
    clustered = Clustered(tmp_path, {})
    try:
        racks = {1: "east", 2: "west"}
        await asyncio.gather(
            *(clustered.make(id_, {"broker.rack": rack}).join() for id_, rack in racks.items())
        )
        await eventually(
            lambda: all(
                b.cluster and len(b.cluster.members) == 2 for b in clustered.brokers.values()
            )
        )
        await clustered.create("t", 2, 2)
        told = [await clustered.ask(id_, CLUSTER, DescribeClusterResponse) for id_ in (1, 2)]
        assert told[0] == told[1]
        assert {each.broker_id: each.rack for each in told[0].brokers} == racks
        assert told[0].controller_id == clustered.controller()
        topics = [await metadata(clustered, id_, "t") for id_ in (1, 2)]
        assert topics[0] == topics[1]
        assert {each.leader_id for each in topics[0].partitions} == {1, 2}
        assert {tuple(sorted(each.isr_nodes)) for each in topics[0].partitions} == {(1, 2)}
    finally:
        await clustered.stop(*list(clustered.brokers))


async def test_a_dead_broker_is_offline_in_the_metadata_of_clients(tmp_path: Path) -> None:
    async with cluster_of(tmp_path, 2) as clustered:
        await clustered.create("t", 2, 1)
        first = await metadata(clustered, 1, "t")
        dead = 2
        (lost,) = [each.partition_index for each in first.partitions if each.leader_id == dead]
        await clustered.kill(dead)
        await eventually(lambda: clustered.partition(1, "t", lost).leader == -1)
        told = (await metadata(clustered, 1, "t")).partitions[lost]
        assert told.error_code == Code.LEADER_NOT_AVAILABLE
        assert (told.leader_id, told.replica_nodes, told.offline_replicas) == (-1, [2], [2])
        request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="t")])
        page = await clustered.ask(1, request, DescribeTopicPartitionsResponse)
        assert page.topics[0].partitions[lost].offline_replicas == [dead]
        await clustered.start(dead)
        await eventually(lambda: clustered.partition(1, "t", lost).leader == dead)
        assert not (await metadata(clustered, 1, "t")).partitions[lost].offline_replicas


async def test_an_id_that_lives_elsewhere_is_refused(tmp_path: Path) -> None:
    async with cluster_of(tmp_path, 1) as clustered:
        first = clustered.brokers[1]
        second = clustered.make(1, {"log.dirs": str(tmp_path / "other")})
        with pytest.raises(Failed, match=f"broker id 1 is taken.*:{first.port}"):
            await second.join()
        await second.stop()
        clustered.brokers[1] = first
        assert (await clustered.ask(1, CLUSTER, DescribeClusterResponse)).brokers[0].broker_id == 1


async def test_a_broker_without_an_id_is_given_one_and_keeps_it(tmp_path: Path) -> None:
    clustered = Clustered(tmp_path, {})
    ids = []
    for _ in range(2):
        broker = clustered.make(7, {"node.id": None})
        await broker.join()
        ids.append(broker.id)
        await broker.stop()
    assert ids == [1001, 1001]


async def test_a_broker_whose_session_expired_registers_again(tmp_path: Path) -> None:
    async with cluster_of(tmp_path, 3) as clustered:
        await clustered.create("t", 3)
        for id_ in (1, 2, 3):
            before = epoch(clustered, id_)
            clustered.expire(id_)
            await eventually(lambda: epoch(clustered, id_) > before)  # noqa: B023
            await controller_of(clustered)
        await eventually(
            lambda: all(len(clustered.partition(1, "t", p).in_sync) == 3 for p in range(3))
        )
        # The in-sync sets may be from before: the controller must know all three brokers again.
        await eventually(
            lambda: all(
                b.cluster and len(b.cluster.members) == 3 for b in clustered.brokers.values()
            )
        )
        await clustered.create("u", by=1)
        assert len({b.cluster.broker_epoch for b in clustered.brokers.values() if b.cluster}) == 3


async def test_a_session_that_expires_while_the_broker_starts_is_replaced(tmp_path: Path) -> None:
    """Recovery took long on a busy machine: the start goes on with another session."""
    clustered = Clustered(tmp_path, {})
    broker = clustered.make(1)
    listen = broker.listen

    def listen_and_expire() -> None:
        listen()
        clustered.expire(1)

    broker.listen = listen_and_expire  # type: ignore[method-assign]
    await broker.join()
    assert "not registered yet" in clustered.logs[1].getvalue()
    assert epoch(clustered, 1) == broker.cluster.broker_epoch  # type: ignore[union-attr]
    await clustered.stop(1)


async def test_batches_to_a_broker_that_knows_no_topics_yet_are_sent_again_in_order(
    tmp_path: Path,
) -> None:
    """If it refused them one by one, a later one could be taken before the first is sent again."""
    async with cluster_of(tmp_path, 1) as clustered:
        await clustered.create("t", replicas=1)
        cluster = clustered.brokers[1].cluster
        assert cluster is not None
        cluster.ready.clear()
        with pytest.raises(Retriable, match="connection"):
            await clustered.ask(1, produce(batch(1)), ProduceResponse, 12)
        cluster.ready.set()
        answer = await clustered.ask(1, produce(batch(1)), ProduceResponse, 12)
        assert answer.responses[0].partition_responses[0].base_offset == 0


async def test_a_controller_that_is_cut_off_from_the_keeper_is_none_any_more(
    tmp_path: Path,
) -> None:
    async with cluster_of(tmp_path, 3) as clustered:
        old = await controller_of(clustered)
        with kept_apart(clustered, old):
            await eventually(lambda: clustered.controller() is None)
            asked = asyncio.ensure_future(clustered.create("t", by=old))
            clustered.expire(old)
            await eventually(lambda: clustered.controller() not in (None, old))
        await asked  # by the next controller, once the old one knows of it
        before = await controller_of(clustered)
        await eventually(lambda: clustered.brokers[old].cluster.controller_id == before)  # type: ignore[union-attr]


async def test_without_a_controller_a_request_waits_for_as_long_as_it_may(tmp_path: Path) -> None:
    async with cluster_of(tmp_path, 2) as clustered:
        with kept_apart(clustered, 1, 2):
            await eventually(lambda: clustered.controller() is None)
            request = CreateTopicsRequest(topics=[creatable("t")], timeout_ms=100)
            answer = await clustered.ask(1, request, CreateTopicsResponse)
            assert answer.topics[0].error_code == Code.NOT_CONTROLLER
            patient = CreateTopicsRequest(topics=[creatable("t")], timeout_ms=180_000)
            asked = asyncio.ensure_future(clustered.ask(2, patient, CreateTopicsResponse))
            await asyncio.sleep(0)
        assert (await asked).topics[0].error_code == Code.NONE


async def test_every_broker_takes_what_the_controller_answers(tmp_path: Path) -> None:
    async with cluster_of(tmp_path, 3) as clustered:
        for id_ in clustered.brokers:
            await clustered.create(f"t{id_}", by=id_)
        request = CreateTopicsRequest(topics=[creatable("t1"), creatable("more", replicas=4)])
        for id_ in clustered.brokers:
            answer = await clustered.ask(id_, request, CreateTopicsResponse, 5)
            assert [each.error_code for each in answer.topics] == [
                Code.TOPIC_ALREADY_EXISTS,
                Code.INVALID_REPLICATION_FACTOR,
            ]


async def test_a_topic_that_is_asked_for_is_made_wherever_it_is_asked_for(tmp_path: Path) -> None:
    settings = {"default.replication.factor": "2", "num.partitions": "3"}
    async with cluster_of(tmp_path, 2, settings) as clustered:
        for id_ in clustered.brokers:
            asked = MetadataRequestTopic(name=f"made-at-{id_}")
            request = MetadataRequest(topics=[asked], allow_auto_topic_creation=True)
            topic = (await clustered.ask(id_, request, MetadataResponse)).topics[0]
            assert topic.error_code == Code.NONE
            assert [len(each.replica_nodes) for each in topic.partitions] == [2, 2, 2]


async def test_settings_of_a_topic_are_in_force_everywhere(tmp_path: Path) -> None:
    async with cluster_of(tmp_path, 3) as clustered:
        await clustered.create("t", retention_ms="5000")
        for id_, broker in clustered.brokers.items():
            assert await described(clustered, id_, TOPIC, "t", "retention.ms") == "5000"
            assert clustered.partition(id_, "t").log.config.retention_ms == 5000
            assert broker.topics.get("t") is not None
        for id_ in clustered.brokers:
            value = str(1000 * id_)
            assert not await alter(clustered, id_, TOPIC, "t", retention_ms=value)
            for each in clustered.brokers:
                assert await described(clustered, each, TOPIC, "t", "retention.ms") == value
                assert clustered.partition(each, "t").log.config.retention_ms == 1000 * id_


@pytest.mark.parametrize("replacing", [False, True], ids=["incremental", "classic"])
async def test_no_broker_shows_an_old_setting_after_the_answer_to_a_change(
    tmp_path: Path, replacing: bool
) -> None:
    async with cluster_of(tmp_path, 3) as clustered:
        await clustered.create("t")
        for id_ in clustered.brokers:
            without_news_of_settings(clustered, id_)
        stale = 0
        for number in range(30):
            at = 1 + number % 3
            change = replace if replacing else alter
            assert not await change(clustered, at, TOPIC, "t", retention_ms=str(1000 + number))
            for other in others(clustered, at):
                seen = await described(clustered, other, TOPIC, "t", "retention.ms")
                stale += seen != str(1000 + number)
        assert not stale, f"{stale} of 60 reads at the other two brokers were stale"


async def test_settings_of_a_group_are_in_force_on_every_broker(tmp_path: Path) -> None:
    option = "consumer.session.timeout.ms"
    async with cluster_of(tmp_path, 3) as clustered:
        assert not await alter(clustered, 1, GROUP, "g/1", **{option: "50000"})
        for each in clustered.brokers:
            assert await described(clustered, each, GROUP, "g/1", option) == "50000"
        await clustered.stop(3)
        await clustered.start(3)
        assert await described(clustered, 3, GROUP, "g/1", option) == "50000"


async def test_a_broker_that_does_not_answer_holds_up_a_change_once_and_not_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("barnabas.broker.cluster.settings_propagation.WAIT_MS_MAX", 200)
    async with cluster_of(tmp_path, 3) as clustered:
        await clustered.create("t")
        at = await controller_of(clustered)
        paused, awake = others(clustered, at)
        resumed = asyncio.Event()

        async def wait() -> None:
            await resumed.wait()

        cluster = clustered.brokers[paused].cluster
        assert cluster is not None
        with monkeypatch.context() as patched:
            patched.setattr(cluster, "refresh", wait)
            loop = asyncio.get_running_loop()
            waited = []
            for number in range(3):
                began = loop.time()
                assert not await alter(clustered, at, TOPIC, "t", retention_ms=str(number))
                waited.append(loop.time() - began)
                assert await described(clustered, awake, TOPIC, "t", "retention.ms") == str(number)
            assert waited[0] >= 0.2
            assert min(waited[1:]) < 0.2, "one that is late already is not waited for"
            resumed.set()
        await eventually(lambda: not cluster_settings_overdue(clustered, at))


def cluster_settings_overdue(clustered: Clustered, at: int) -> bool:
    cluster = clustered.brokers[at].cluster
    assert cluster is not None
    return bool(cluster.forwarding.settings.overdue)


async def test_settings_of_brokers_are_made_by_any_of_them(tmp_path: Path) -> None:
    async with cluster_of(tmp_path, 2) as clustered:
        assert not await alter(clustered, 1, BROKER, "", log_retention_ms="70000")
        assert not await alter(clustered, 1, BROKER, "2", log_retention_ms="80000")
        await eventually(lambda: clustered.brokers[2].config.log_retention_ms == 80_000)
        await eventually(lambda: clustered.brokers[1].config.log_retention_ms == 70_000)
        assert await alter(clustered, 1, BROKER, "9", log_retention_ms="1") == Code.INVALID_REQUEST
        await clustered.stop(2)
        await clustered.start(2)
        assert clustered.brokers[2].config.log_retention_ms == 80_000


async def test_a_broker_that_missed_many_changes_reads_everything(tmp_path: Path) -> None:
    async with cluster_of(tmp_path, 2) as clustered:
        await clustered.create("t", 1, 2)
        away = others(clustered, await controller_of(clustered))[0]
        with kept_apart(clustered, away):
            for value in range(1, 131):
                assert not await alter(
                    clustered, 3 - away, TOPIC, "t", retention_ms=str(value * 1000)
                )
        await eventually(lambda: clustered.partition(away, "t").log.config.retention_ms == 130_000)


async def test_no_producer_id_is_given_twice(tmp_path: Path) -> None:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    async with cluster_of(tmp_path, 3) as clustered:
        answers = await asyncio.gather(
            *(
                clustered.ask(id_, request, InitProducerIdResponse)
                for id_ in clustered.brokers
                for _ in range(20)
            )
        )
        assert len({each.producer_id for each in answers}) == 60


async def test_the_word_of_an_old_controller_or_to_an_old_registration_is_refused(
    tmp_path: Path,
) -> None:
    async with cluster_of(tmp_path, 2) as clustered:
        cluster = clustered.brokers[1].cluster
        assert cluster is not None
        known = cluster.controlling.epoch

        async def say(controller_epoch: int, broker_epoch: int) -> int:
            request = UpdateMetadataRequest(
                controller_id=9,
                controller_epoch=controller_epoch,
                broker_epoch=broker_epoch,
                topic_states=[],
                live_brokers=[],
            )
            return (await clustered.ask(1, request, UpdateMetadataResponse)).error_code

        assert await say(known - 1, cluster.broker_epoch) == Code.STALE_CONTROLLER_EPOCH
        assert await say(known, cluster.broker_epoch - 1) == Code.STALE_BROKER_EPOCH
        assert len(cluster.members) == 2


async def test_a_deleted_topic_is_gone_everywhere_and_its_name_is_free(tmp_path: Path) -> None:
    async with cluster_of(tmp_path, 3) as clustered:
        await clustered.create("t", 2)
        first = clustered.partition(1, "t")
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name="t", topic_id=NO_TOPIC_ID)], timeout_ms=180_000
        )
        answer = await clustered.ask(2, request, DeleteTopicsResponse)
        assert answer.responses[0].error_code == Code.NONE
        await eventually(lambda: all(b.topics.get("t") is None for b in clustered.brokers.values()))
        await eventually(
            lambda: not any((tmp_path / f"b{id_}" / "t-0").exists() for id_ in (1, 2, 3))
        )
        await clustered.create("t", 2)
        assert clustered.partition(1, "t") is not first


async def test_the_records_of_a_lone_broker_are_there_when_it_becomes_a_cluster(
    tmp_path: Path,
) -> None:
    clustered = Clustered(tmp_path, {})
    async with running_broker(
        tmp_path / "b1", {"node.id": "1"}, keeper=MemoryKeeper(clustered.store)
    ) as alone:
        await alone.create("t", 2)
        await alone.produce("t", 1, 2, 3, partition=1)
    try:
        await clustered.start(1, 2)
        await eventually(lambda: clustered.partition(2, "t", 1).leader == 1)
        assert clustered.partition(1, "t", 1).log.end_offset == 3
        await eventually(lambda: clustered.partition(1, "t", 1).log.high_watermark == 3)
        await clustered.create("u", 1, 2)
    finally:
        await clustered.stop(*list(clustered.brokers))


async def test_a_lone_broker_knows_nothing_of_what_brokers_say_to_each_other(
    tmp_path: Path,
) -> None:
    async with running_broker(tmp_path) as alone:
        alone.send(AlterPartitionRequest(broker_id=1, topics=[]))
        with pytest.raises(ConnectionError):
            await alone.wire.take()
        assert "not supported by this broker" in alone.log.getvalue()


async def test_a_broker_that_stops_hands_over_what_it_leads_first(tmp_path: Path) -> None:
    async with cluster_of(tmp_path, 3) as clustered:
        await clustered.create("t", 6)
        leaving = clustered.leader("t")
        stays = others(clustered, leaving)[0]
        await clustered.stop(leaving)
        assert all(clustered.partition(stays, "t", p).leader != leaving for p in range(6))
        assert "leaves partitions without a leader" not in clustered.logs[leaving].getvalue()
        with clustered.lock:
            assert not clustered.sessions[stays].exists(paths.broker(leaving))


async def test_the_last_broker_stops_without_waiting_for_anybody(tmp_path: Path) -> None:
    async with cluster_of(tmp_path, 2) as clustered:
        await clustered.create("t", 2, 2)
        await clustered.stop(1)
        await clustered.stop(2)
        assert "broker lost" not in clustered.logs[2].getvalue().rpartition('"registered"')[0]
        await clustered.start(2, 1)
        await eventually(lambda: len(clustered.partition(1, "t").in_sync) == 2)


async def test_who_is_not_there_is_not_called(tmp_path: Path) -> None:
    async with cluster_of(tmp_path, 1) as clustered:
        cluster = clustered.brokers[1].cluster
        assert cluster is not None
        with pytest.raises(Retriable, match="not in the cluster"):
            await cluster.peers.call(2, CLUSTER, timeout_ms=1)  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "index"), [("../../etc", 0), ("t", -1), ("t", 2**31 - 1)])
async def test_no_word_of_a_controller_makes_what_cannot_be(
    tmp_path: Path, name: str, index: int
) -> None:
    async with cluster_of(tmp_path, 1) as clustered:
        cluster = clustered.brokers[1].cluster
        assert cluster is not None
        state = LeaderAndIsrPartitionState(
            partition_index=index,
            controller_epoch=cluster.controlling.epoch,
            leader=1,
            leader_epoch=0,
            isr=[1],
            partition_epoch=0,
            replicas=[1],
            is_new=True,
        )
        request = LeaderAndIsrRequest(
            controller_id=1,
            controller_epoch=cluster.controlling.epoch,
            broker_epoch=cluster.broker_epoch,
            topic_states=[
                LeaderAndIsrTopicState(topic_name=name, topic_id=uuid4(), partition_states=[state])
            ],
            live_leaders=[],
        )
        answer = await clustered.ask(1, request, LeaderAndIsrResponse)
        assert answer.error_code in (Code.INVALID_TOPIC_EXCEPTION, Code.INVALID_PARTITIONS)
        assert not list((tmp_path / "b1").glob("*etc*"))


async def test_groups_see_a_topic_when_all_of_its_partitions_are_listed(tmp_path: Path) -> None:
    async with cluster_of(tmp_path, 1) as clustered:
        broker, id_ = clustered.brokers[1], uuid4()
        cluster = broker.cluster
        assert cluster is not None
        epochs = (cluster.controlling.epoch, cluster.broker_epoch)
        seen = TopicsSeen(broker)

        async def lead(index: int) -> None:
            state = LeaderAndIsrPartitionState(
                partition_index=index,
                controller_epoch=epochs[0],
                leader=1,
                leader_epoch=0,
                isr=[1],
                partition_epoch=0,
                replicas=[1],
                is_new=True,
            )
            topic = LeaderAndIsrTopicState(topic_name="t", topic_id=id_, partition_states=[state])
            request = LeaderAndIsrRequest(
                controller_id=1,
                controller_epoch=epochs[0],
                broker_epoch=epochs[1],
                topic_states=[topic],
                live_leaders=[],
            )
            answer = await clustered.ask(1, request, LeaderAndIsrResponse)
            assert answer.error_code == Code.NONE

        async def list_partitions(total: int) -> None:
            states = [
                UpdateMetadataPartitionState(
                    partition_index=index,
                    controller_epoch=epochs[0],
                    leader=1,
                    leader_epoch=0,
                    isr=[1],
                    zk_version=0,
                    replicas=[1],
                )
                for index in range(total)
            ]
            topic = UpdateMetadataTopicState(topic_name="t", topic_id=id_, partition_states=states)
            request = UpdateMetadataRequest(
                controller_id=1,
                controller_epoch=epochs[0],
                broker_epoch=epochs[1],
                type=1,
                topic_states=[topic],
                live_brokers=[],
            )
            answer = await clustered.ask(1, request, UpdateMetadataResponse)
            assert answer.error_code == Code.NONE

        await lead(1)
        assert broker.topics.get("t") is not None
        assert seen.find("t") is None
        await list_partitions(3)
        assert seen.find("t") == AssignableTopic(3, id_)
        await lead(4)  # the topic grows
        assert seen.find("t") == AssignableTopic(3, id_)
        await list_partitions(6)
        assert seen.find("t") == AssignableTopic(6, id_)


async def test_each_broker_describes_the_logs_and_settings_that_are_its_own(tmp_path: Path) -> None:
    async with cluster_of(tmp_path, 2) as clustered:
        await clustered.create("t", 4, 1)
        found: dict[int, list[int]] = {}
        for id_ in clustered.brokers:
            answer = await clustered.ask(
                id_, DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse
            )
            (directory,) = answer.results
            found[id_] = [
                each.partition_index for topic in directory.topics for each in topic.partitions
            ]
            assert all(clustered.partition(id_, "t", index).leader == id_ for index in found[id_])
            assert await described(clustered, id_, BROKER, str(id_), "node.id") == str(id_)
        assert sorted(found[1] + found[2]) == [0, 1, 2, 3]
        asked = DescribeConfigsResource(
            resource_type=BROKER, resource_name="2", configuration_keys=None
        )
        request = DescribeConfigsRequest(resources=[asked])
        told = await clustered.ask(1, request, DescribeConfigsResponse)
        assert told.results[0].error_code == Code.INVALID_REQUEST
