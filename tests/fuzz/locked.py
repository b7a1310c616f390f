"""Fuzzes a broker that requires a login: before one, and after one as a user with few rights.

In: a seed and a number of requests. Out: figures, or Broken with what was sent.
Always: no reply has a name or a byte that the access rules hide ("canary"), and nothing that is
hidden has changed at the end. The broker is watched, and its secrets are made, on a second
listener, whose clients are super users.
"""

import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from uuid import UUID

import barnabas.sync
from barnabas.cli.security import stored_users
from barnabas.client.admin.security import Acl
from barnabas.model.errors import KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.security.sasl.mechanism import SCRAMS
from tests.fuzz import logins
from tests.fuzz.generate import GROUPS, TOPICS
from tests.fuzz.run import Entrance, Figures, run_fuzz
from tests.fuzz.watch import HIDDEN, HONEST, Broken, Watch
from tests.ports import free_ports
from tests.process import BrokerProcess

FEW, PASSWORD = "few", "canary-password-of-few"
SECRET = f"{HIDDEN}-topic"
RECORDS = 100
_LATEST = -1  # as a time: the end offset
_OPTIONS = {
    "num.partitions": "1",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "connection.failed.authentication.delay.ms": "0",
    "delegation.token.secret.key": "canary-key-of-tokens",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain."
    f'PlainLoginModule required user_{FEW}="{PASSWORD}";',
}
# What the user with few rights has.
RULES = [
    *(Acl("topic", TOPICS[0], f"User:{FEW}", each) for each in ("read", "write", "describe")),
    Acl("topic", TOPICS[1], f"User:{FEW}", "read"),
    Acl("topic", TOPICS[1], f"User:{FEW}", "describe_configs"),
    Acl("group", GROUPS[0], f"User:{FEW}", "read"),
    Acl("transactional_id", TOPICS[0], f"User:{FEW}", "describe"),
    Acl("topic", HIDDEN, "User:canary-bob", "all", pattern="prefixed"),
    Acl("group", HIDDEN, "User:canary-bob", "read", pattern="prefixed"),
]


class LockedBroker(BrokerProcess):
    """With a listener for super users, and one that requires a login."""

    locked_port = 0

    def command(self) -> list[str]:
        file = self._log.with_suffix(".properties")
        file.write_text("".join(f"{name}={value}\n" for name, value in self._options.items()))
        return [
            *(sys.executable, "-m", "barnabas", "up", "--data", str(self.data), "-F", str(file)),
            *("--listen", f"PLAINTEXT://{self.host}:{self.port}"),
            *("--listen", f"SASL_PLAINTEXT://{self.host}:{self.locked_port}"),
        ]


@contextmanager
def _running(directory: Path) -> Iterator[LockedBroker]:
    data = directory / "data"
    with stored_users.opened(str(data), None) as keeper:
        stored_users.set_password(keeper, "canary-user", "canary-password", SCRAMS, 4096)
    plain, locked = free_ports(2)
    broker = LockedBroker(data, _OPTIONS, port=plain, log=directory / "broker.log")
    broker.locked_port = locked
    broker.start()
    try:
        yield broker
    finally:
        if broker.is_running():
            broker.stop()


@contextmanager
def _open_transaction(servers: str, name: str) -> Iterator[None]:
    with (
        suppress(KafkaError),  # a long run: it was aborted for its timeout
        barnabas.sync.Producer(
            bootstrap_servers=servers, transactional_id=name, transaction_timeout_ms=900_000
        ) as producer,
        producer.transaction(),
    ):
        producer.send(SECRET, b"canary-uncommitted", partition=1)
        yield


class Secrets:
    """Topics, groups, transactions, quotas and rules that the user may not see."""

    def __init__(self, broker: LockedBroker, stack: ExitStack, more_rules: Sequence[Acl]) -> None:
        servers = broker.bootstrap_servers
        self._admin = stack.enter_context(barnabas.sync.Admin(bootstrap_servers=servers))
        self._admin.create_topic(SECRET, partitions=2)
        self._admin.create_acls([*RULES, *more_rules])
        self._admin.alter_quota({"user": "canary-user"}, {"producer_byte_rate": 1e9})
        at = TopicPartition(SECRET, 0)
        with barnabas.sync.Producer(bootstrap_servers=servers) as producer:
            for number in range(RECORDS):
                producer.send(SECRET, b"canary-value %d" % number, partition=0)
        for group in (GROUPS[0], "canary-group"):
            reader = barnabas.sync.PartitionConsumer(
                [at], bootstrap_servers=servers, group_id=group
            )
            with reader:
                reader.commit({at: 7})
        # Open to the end. The user may see the first transaction, but not its topic.
        for name in (TOPICS[0], "canary-transaction"):
            stack.enter_context(_open_transaction(servers, name))
        self.ids: tuple[UUID, ...] = (self._admin.topic(SECRET).id,)
        self._before = self._seen()

    def _seen(self) -> object:
        offsets = self._admin.offsets({TopicPartition(SECRET, 0): _LATEST})
        rules = sorted(map(str, self._admin.acls()))
        quotas = sorted(map(str, self._admin.quotas()))
        users = sorted(map(str, self._admin.users()))
        topics = sorted(name for name in self._admin.topics().topics if HIDDEN in name)
        return [sorted(map(str, offsets.items())), rules, quotas, users, topics]

    def check_unchanged(self) -> None:
        now = self._seen()
        if now != self._before:
            raise Broken(f"what the user may not change was {self._before}, and is {now}")


def fuzz_locked(
    requests: int,
    seed: int,
    say: Callable[[str], None],
    *,
    logged_in: bool,
    more_rules: Sequence[Acl] = (),
) -> Figures:
    """Broken names the seed and the round."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="barnabas-fuzz-")))
        broker = stack.enter_context(_running(directory))
        secrets = Secrets(broker, stack, more_rules)
        watch = Watch(broker, directory / "broker.log")
        stack.callback(watch.close)
        seen_by_nobody = (HIDDEN.encode(), HONEST.encode())
        entrance = Entrance(
            broker.locked_port,
            logins.frames(FEW, PASSWORD) if logged_in else b"",
            logged_in,
            seen_by_nobody,
            secrets.ids,
        )
        figures = run_fuzz(broker, watch, requests, seed, say, entrance)
        secrets.check_unchanged()
        return figures
