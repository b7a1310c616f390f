"""What the client says of options it does not have, and of user functions that return rubbish."""

import asyncio
import logging
from typing import Any

import pytest

import barnabas
import barnabas.sync
from barnabas.client.consumer.offset_lookup import check_committed
from barnabas.config.client import ClientConfig
from barnabas.model.errors import Code, Fenced, InvalidRequest
from barnabas.wire.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tests.process import BrokerProcess
from tests.waiting import WAIT_S, until

ANYTHING: Any = barnabas


@pytest.mark.parametrize("name", ["sasl.kerberos.service.name", "ssl.provider"])
def test_security_options_that_do_not_exist_here_are_refused(name: str) -> None:
    with pytest.raises(InvalidRequest, match=f"{name} is not supported.*sasl.mechanism"):
        ClientConfig({name: "x"})
    ClientConfig({"security.protocol": "PLAINTEXT"})


@pytest.mark.parametrize("face", [barnabas, barnabas.sync])
def test_no_bootstrap_servers_at_all_are_refused(face: Any) -> None:
    for given in ({"bootstrap.servers": None}, {"bootstrap_servers": None}):
        with pytest.raises(InvalidRequest, match="is None: name a broker"):
            face.Admin(given) if "bootstrap.servers" in given else face.Admin(**given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "names no broker: name one"),
        ("", "names no broker: name one"),
        ([None], r"\[None\]: name brokers as a text or a list of texts"),
        (["localhost:9092", None], "None.*: name brokers as a text or a list of texts"),
        (9092, "9092: name brokers as a text or a list of texts"),
    ],
)
def test_bootstrap_servers_are_texts(given: Any, said: str) -> None:
    makes: list[Any] = [barnabas.Admin, barnabas.sync.Admin]
    for make in makes:
        with pytest.raises(InvalidRequest, match=said):
            make(bootstrap_servers=given)


class Forgetful:
    """Does its work, and returns nothing."""

    def on_send(self, record: Any) -> Any: ...

    def on_acknowledgement(self, metadata: Any, error: Any) -> None: ...

    def on_consume(self, messages: Any) -> Any: ...

    def on_commit(self, offsets: Any) -> None: ...


async def test_a_user_function_that_returns_rubbish_is_named(
    broker: BrokerProcess, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    servers: dict[str, Any] = {"bootstrap_servers": broker.bootstrap_servers}
    async with barnabas.Producer(**servers) as producer:
        await producer.send(topic, b"x", partition=0)

    def chooses_text(*_: object) -> Any:
        return "0"

    async with barnabas.Producer(partitioner=chooses_text, **servers) as producer:
        with pytest.raises(InvalidRequest, match=r"partitioner .*chooses_text.* returned '0'"):
            await producer.send(topic, b"x")
    async with ANYTHING.Producer(interceptors=[Forgetful()], **servers) as producer:
        with pytest.raises(InvalidRequest, match=r"on_send of .*Forgetful.* returned None"):
            await producer.send(topic, b"x")
    reading = {"auto_offset_reset": "earliest", **servers}
    async with ANYTHING.PartitionConsumer(
        [(topic, 0)], interceptors=[Forgetful()], **reading
    ) as consumer:
        with pytest.raises(InvalidRequest, match=r"on_consume of .*Forgetful.* returned None"):
            await consumer.getone(timeout=WAIT_S)

    with caplog.at_level(logging.WARNING, "barnabas.client"):
        async with barnabas.Consumer(
            "not-there", group_id=topic, allow_auto_create_topics=False, **servers
        ) as missing:
            async with asyncio.timeout(WAIT_S):
                while "no topic not-there" not in caplog.text:
                    assert await missing.getmany(timeout=0.1) == []


def test_a_reader_of_a_partition_that_is_not_there_says_so(
    broker: BrokerProcess, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    options: dict[str, Any] = {
        "bootstrap_servers": broker.bootstrap_servers, "allow_auto_create_topics": False,
    }  # fmt: skip
    with (
        caplog.at_level(logging.WARNING, "barnabas.client"),
        barnabas.sync.PartitionConsumer([(topic, 0)], **options) as reader,
    ):
        said = f"reading failed, retrying: UNKNOWN_TOPIC_OR_PARTITION: topic {topic!r}"
        until(lambda: reader.getmany(timeout=0.1) == [] and said in caplog.text)


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        (Code.UNKNOWN_MEMBER_ID, "no heartbeat in session.timeout.ms.*max.poll.interval.ms"),
        (Code.ILLEGAL_GENERATION, "rebalanced without this member.*poll for messages"),
        (Code.FENCED_MEMBER_EPOCH, "rebalanced without this member.*poll for messages"),
        (Code.FENCED_INSTANCE_ID, "same group.instance.id: give every member its own"),
    ],
)
def test_a_refused_commit_says_the_cause_and_the_remedy(code: Code, cause: str) -> None:
    refused = OffsetCommitResponsePartition(partition_index=0, error_code=code)
    response = OffsetCommitResponse(
        topics=[OffsetCommitResponseTopic(name="t", partitions=[refused])]
    )
    with pytest.raises(Fenced, match=cause):
        check_committed("g", response)
