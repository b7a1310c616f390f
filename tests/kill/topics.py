"""A user of topics through every kill: creates, writes to, configures and deletes them.

Always: what was answered is so after a restart; what was cut off may be so or not, but a topic
that is created again is empty.
"""

from random import Random

from barnabas.model.ids import NO_TOPIC_ID
from barnabas.wire.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from barnabas.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from barnabas.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from barnabas.wire.records import decode_batch
from tests.kill.ledger import PartitionLedger, Violation
from tests.kill.producers import RECONNECT_S, LoadProducer, Place
from tests.raw import RawClient, batch_of, name_of, records_in

NAMES = [f"churn-{number}" for number in range(4)]
SEGMENT_BYTES = (40_000, 60_000, 100_000, 1_000_000)
SMALL_SEGMENT_BYTES = 250  # a segment for every few records, to be synced when they go
OPTION = "segment.bytes"
TOPIC = 2
SET = 0


class TopicUser(LoadProducer):
    """One thing at a time, in random order."""

    def __init__(self, port: int, ledgers: dict[Place, PartitionLedger], random: Random) -> None:
        super().__init__("topics", port, ledgers)
        self._random = random
        self._there: dict[str, bool | None] = dict.fromkeys(NAMES, False)  # None: cut off
        self._records: dict[str, list[bytes]] = {}
        self._unsure: dict[str, bytes] = {}  # a record that was cut off
        self._options: dict[str, set[str]] = {topic: set() for topic, _ in ledgers}

    def run(self) -> None:
        while not self.finishing.is_set():
            try:
                with RawClient("127.0.0.1", self.port) as client:
                    self._look(client)
                    while not self.finishing.is_set():
                        self._act(client)
            except TimeoutError:
                raise
            except OSError:
                self.finishing.wait(RECONNECT_S)

    def _act(self, client: RawClient) -> None:
        name = self._random.choice(NAMES)
        if self._random.random() < 0.3:
            self._configure(client)
        elif not self._there[name]:
            self._create(client, name)
        elif self._random.random() < 0.5:
            for _ in range(self._random.randrange(1, 20)):
                self._produce(client, name)
        else:
            self._delete(client, name)
        self.finishing.wait(0.01)

    def _create(self, client: RawClient, name: str) -> None:
        self._there[name] = None
        self._records[name] = []
        self._unsure.pop(name, None)
        partitions = self._random.choice((1, 3))
        code = client.create_topic(name, partitions, [(OPTION, str(SMALL_SEGMENT_BYTES))])
        if code:
            raise Violation(f"{name}: create answered {name_of(code)}")
        self._there[name] = True
        if client.fetch(name, 0).high_watermark:
            raise Violation(f"{name}: created, and not empty")

    def _produce(self, client: RawClient, name: str) -> None:
        if name in self._unsure:
            return
        value = self._unsure[name] = f"{name} {self._random.random()}".encode()
        told = client.produce(name, batch_of(value))
        del self._unsure[name]
        if told.error_code or told.base_offset != len(self._records[name]):
            raise Violation(f"{name}: record {len(self._records[name])} answered {told}")
        self._records[name].append(value)
        self.acknowledged += 1

    def _delete(self, client: RawClient, name: str) -> None:
        self._there[name] = None
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name, topic_id=NO_TOPIC_ID)], timeout_ms=60_000
        )
        code = client.call(request, 6, DeleteTopicsResponse).responses[0].error_code
        if code:
            raise Violation(f"{name}: delete answered {name_of(code)}")
        self._there[name] = False

    def _configure(self, client: RawClient) -> None:
        topic = self._random.choice(list(self._options))
        value = str(self._random.choice(SEGMENT_BYTES))
        self._options[topic].add(value)
        config = AlterableConfig(name=OPTION, config_operation=SET, value=value)
        resource = AlterConfigsResource(resource_type=TOPIC, resource_name=topic, configs=[config])
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        answer = client.call(request, 1, IncrementalAlterConfigsResponse).responses[0]
        if answer.error_code:
            raise Violation(f"{topic}: {OPTION}={value} answered {answer}")
        self._options[topic] = {value}

    # After a restart

    def _look(self, client: RawClient) -> None:
        """Is everything as it was answered? What was cut off is known from here on."""
        names = {topic.name for topic in client.metadata().topics}
        for name, there in self._there.items():
            if there is not None and there != (name in names):
                raise Violation(f"{name}: answered as {'there' if there else 'gone'}, it is not")
            self._there[name] = name in names
            if name in names:
                self._look_at_records(client, name)
        for topic, expected in self._options.items():
            self._look_at_option(client, topic, expected)

    def _look_at_records(self, client: RawClient, name: str) -> None:
        expected = self._records[name]
        found: list[bytes | None] = []
        while records := records_in(client.fetch(name, len(found))):
            found += [record.value for record in decode_batch(records)]
        unsure = self._unsure.pop(name, None)
        if unsure is not None and len(found) == len(expected) + 1:
            expected.append(unsure)
        if found != expected:
            raise Violation(f"{name}: {found} found, {expected} acknowledged")

    def _look_at_option(self, client: RawClient, topic: str, expected: set[str]) -> None:
        resource = DescribeConfigsResource(
            resource_type=TOPIC, resource_name=topic, configuration_keys=[OPTION]
        )
        answer = client.call(
            DescribeConfigsRequest(resources=[resource]), 4, DescribeConfigsResponse
        )
        value = answer.results[0].configs[0].value or ""
        if expected and value not in expected:
            raise Violation(f"{topic}: {OPTION} is {value}, answered was {expected}")
        self._options[topic] = {value}
