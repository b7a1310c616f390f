"""The same requests, of a client with the same rules, to Barnabas and to Apache Kafka.

Both have a plain listener, whose clients are super users, and a listener where alice logs in.
"""

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from barnabas.broker.net.dispatch import BETWEEN_BROKERS
from barnabas.coordinators.groups.streams.topics import StreamsStatus
from barnabas.security.acl.rules import AclRule, Permission
from barnabas.wire.apis import APIS, PRIVATE_FROM
from barnabas.wire.messages import create_acls, delete_acls, describe_acls, metadata
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest
from barnabas.wire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from tests.broker.authorization.samples import SAMPLES, C, G, T, X, prefixed, rule
from tests.compat.apache_kafka.authorized_requests import REQUESTS, RIGHTS, TOPICS
from tests.coordinators.groups.streams.streams_world import subtopology, topology
from tests.ports import free_ports
from tests.process import KEPT, BrokerProcess
from tests.support.caller import Caller, comparable
from tests.support.java import kafka_tools
from tests.support.kafka import kafka_for_tests
from tests.waiting import WAIT_S, until

PASSWORD = "alice-secret"
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
DENIALS = {T, G, C, X}
LOGIN = {17, 36}
DESCRIBE_SHARE_GROUP = 77  # by the topics that are assigned, which takes Kafka a second longer
KEYS = [
    key
    for key in SAMPLES
    if key < PRIVATE_FROM
    and key not in (*BETWEEN_BROKERS, *LOGIN, DESCRIBE_SHARE_GROUP)
    and SAMPLES[key].denied
]
ANYTHING: dict[str, Any] = {
    "resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1,
    "principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1,
}  # fmt: skip


class Target(NamedTuple):
    """One listener."""

    host: str
    port: int


class Side:
    """One of the brokers: its administrator, and alice."""

    def __init__(self, plain: int, sasl: int) -> None:
        self.plain, self.sasl = plain, sasl
        self.admin = Caller(Target("127.0.0.1", plain))  # type: ignore[arg-type]
        self.alice = self.log_in()
        self.id = self.admin.create("orders")
        self.ids: dict[str, UUID] = {}
        for key_type in (0, 1):
            self.find_coordinator(key_type)

    def find_coordinator(self, key_type: int) -> None:
        """Until it is there: the first search creates its topic."""
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["g"])
        deadline = time.monotonic() + WAIT_S
        while self.admin.answer(request, 4)["coordinators"][0]["error_code"]:
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def close(self) -> None:
        self.admin.close()
        self.alice.close()

    def log_in(self) -> Caller:
        caller = Caller(Target("127.0.0.1", self.sasl))  # type: ignore[arg-type]
        caller.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        token = SaslAuthenticateRequest(auth_bytes=f"\0alice\0{PASSWORD}".encode())
        assert not caller.ask(token, 2).error_code  # type: ignore[attr-defined]
        return caller

    def set_rules(self, rules: list[AclRule]) -> None:
        """Exactly these, in force."""
        everything = delete_acls.DeleteAclsFilter(**ANYTHING)
        self.admin.ask(delete_acls.DeleteAclsRequest(filters=[everything]), 3)
        creations = [
            create_acls.AclCreation(
                resource_type=each.resource.type,
                resource_name=each.resource.name,
                resource_pattern_type=each.resource.pattern,
                principal=each.principal,
                host=each.host,
                operation=each.operation,
                permission_type=each.permission,
            )
            for each in rules
        ]
        answer: Any = self.admin.ask(create_acls.CreateAclsRequest(creations=creations), 3)
        assert [each.error_code for each in answer.results] == [0] * len(rules)
        deadline = time.monotonic() + WAIT_S
        while self.stored() != len(set(rules)):
            assert time.monotonic() < deadline
            time.sleep(0.005)

    def stored(self) -> int:
        answer: Any = self.admin.ask(describe_acls.DescribeAclsRequest(**ANYTHING), 3)
        return sum(len(each.acls) for each in answer.resources)

    def answer(self, key: int, version: int) -> Any:
        return comparable(self.alice.ask(SAMPLES[key].make(version, self.id), version))

    def has(self, topic: str) -> bool:
        named = metadata.MetadataRequestTopic(name=topic)
        request = metadata.MetadataRequest(topics=[named], allow_auto_topic_creation=False)
        answer: Any = self.admin.ask(request, 12)
        return not answer.topics[0].error_code

    def has_orders(self) -> None:
        """Allowed deletions delete it."""
        self.id = self.admin.create("orders")


@pytest.fixture(scope="module")
def us(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    directory = tmp_path_factory.mktemp("authorized")
    plain, sasl = free_ports(2)
    file = directory / "server.properties"
    jaas = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    settings = {
        **KEPT,
        "listeners": f"PLAINTEXT://127.0.0.1:{plain},SASL_PLAINTEXT://127.0.0.1:{sasl}",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{jaas} user_alice="{PASSWORD}";',
        "authorizer.class.name": AUTHORIZER,
        "super.users": "User:ANONYMOUS",
    }
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))

    class Authorized(BrokerProcess):
        def command(self) -> list[str]:
            start = (sys.executable, "-m", "barnabas", "up", "--data", str(self.data))
            return [*start, "-F", str(file)]

    process = Authorized(directory / "data", port=plain, log=directory / "broker.log")
    process.start()
    try:
        side = Side(plain, sasl)
        yield side
        side.close()
    finally:
        process.stop()


@pytest.fixture(scope="module")
def them(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    directory: Path = tmp_path_factory.mktemp("kafka")
    plain, controller, sasl = free_ports(3)
    protocols = "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT"
    plain_address = f"PLAINTEXT://127.0.0.1:{plain},SASL_PLAINTEXT://127.0.0.1:{sasl}"
    jaas = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    options = {
        "listeners": f"{plain_address},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": plain_address,
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listener.security.protocol.map": protocols,
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{jaas} user_alice="{PASSWORD}";',
        "authorizer.class.name": AUTHORIZER,
        "super.users": "User:ANONYMOUS",
    }
    with kafka_for_tests(directory, options, plain):
        side = Side(plain, sasl)
        yield side
        side.close()


def rule_sets(key: int) -> Iterator[tuple[str, list[AclRule]]]:
    """What alice may do, by name."""
    yield "nothing", []
    for need in SAMPLES[key].needs:
        rules = [rule(right) for right in need]
        yield f"only {need}", rules
        yield f"prefixed {need}", [prefixed(each) for each in rules]
        for number, each in enumerate(rules):
            yield f"{need} without {each}", rules[:number] + rules[number + 1 :]
            deny = each._replace(permission=Permission.DENY)
            yield f"{need} and {deny}", [*rules, deny]
            away = each._replace(host="198.51.100.1")
            yield f"{need} from elsewhere", [*rules[:number], away, *rules[number + 1 :]]


def codes(answer: Any) -> set[int]:
    if isinstance(answer, dict):
        own = {value for name, value in answer.items() if name.endswith("error_code")}
        return own.union(*(codes(value) for value in answer.values()))
    if isinstance(answer, list):
        return set().union(*map(codes, answer))
    return set()


def versions(key: int) -> list[int]:
    top = 3 if key == 24 else APIS[key].max_version
    return sorted({APIS[key].min_version, top // 2, top} - set(range(APIS[key].min_version)))


@pytest.mark.parametrize("key", KEYS, ids=lambda key: APIS[key].name)
def test_a_request_is_allowed_or_refused_as_by_kafka(us: Side, them: Side, key: int) -> None:
    for name, rules in rule_sets(key):
        us.set_rules(rules)
        them.set_rules(rules)
        for version in versions(key):
            ours, theirs = us.answer(key, version), them.answer(key, version)
            found, expected = codes(ours) & DENIALS, codes(theirs) & DENIALS
            assert found == expected, f"version {version}, {name}: {ours} {theirs}"
            if expected and not codes(theirs) - DENIALS - {0}:
                assert ours == theirs, f"version {version}, {name}"
            if key == 20:
                us.has_orders()
                them.has_orders()


def test_kafka_acls_adds_lists_and_removes_rules(us: Side) -> None:
    us.set_rules([])
    to = ("--bootstrap-server", f"127.0.0.1:{us.plain}")
    main = "org.apache.kafka.tools.AclCommand"

    def run(*arguments: str) -> str:
        done = kafka_tools().run(main, *to, *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run("--add", "--allow-principal", "User:alice", "--consumer", "--topic", "orders",
        "--group", "g-", "--resource-pattern-type", "prefixed")  # fmt: skip
    listed = run("--list")
    assert "resourceType=GROUP, name=g-, patternType=PREFIXED" in listed
    assert listed.count("principal=User:alice") == 3
    run("--add", "--deny-principal", "User:mallory", "--operation", "All", "--topic", "*")
    assert "permissionType=DENY" in run("--list", "--topic", "*")
    run("--remove", "--force", "--allow-principal", "User:alice", "--consumer", "--topic",
        "orders", "--group", "g-", "--resource-pattern-type", "prefixed")  # fmt: skip
    assert us.stored() == 1


@pytest.mark.parametrize("right", ["CLUSTER CREATE kafka-cluster", "TOPIC CREATE {changelog}"])
def test_internal_topics_need_the_right_of_the_member_to_create_them(
    us: Side, them: Side, right: str
) -> None:
    ours, theirs = (_told_of_internal_topics(side, right) for side in (us, them))
    assert ours == theirs
    assert ours == (0, [StreamsStatus.MISSING_INTERNAL_TOPICS], True, False)


def _told_of_internal_topics(side: Side, right: str) -> Any:
    """What a member without the right is told, and whether there is a topic; with it there is."""
    group = f"g-{right.split(' ', maxsplit=1)[0].lower()}"
    changelog = f"{group}-s-changelog"
    rights = [f"GROUP READ {group}", "TOPIC DESCRIBE orders", f"TOPIC DESCRIBE {changelog}"]
    request = StreamsGroupHeartbeatRequest(
        group_id=group,
        member_id="m",
        member_epoch=0,
        endpoint_information_epoch=-1,
        rebalance_timeout_ms=1_000,
        process_id="p",
        topology=topology(subtopology("0", ["orders"], changelogs=(changelog,))),
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
    )

    def is_created() -> bool:
        side.alice.ask(request, 0)
        return side.has(changelog)

    side.has_orders()
    side.set_rules([rule(each) for each in rights])
    denied: Any = side.alice.ask(request, 0)
    statuses = {each.status_code: each.status_detail for each in denied.status}
    statuses.pop(StreamsStatus.ASSIGNMENT_DELAYED, None)
    is_named = any(detail.count(changelog) > 1 for detail in statuses.values())
    told = (denied.error_code, sorted(statuses), is_named, side.has(changelog))
    side.set_rules([rule(each) for each in (*rights, right.format(changelog=changelog))])
    until(is_created, lambda: side.alice.ask(request, 0))
    return told


@pytest.fixture(scope="module")
def both(us: Side, them: Side) -> tuple[Side, Side]:
    """With the rules and topics of authorized_requests.py."""
    for side in (us, them):
        side.ids = {name: side.admin.create(name) for name in TOPICS}
        side.set_rules([rule(right) for right in RIGHTS])
    return us, them


@pytest.mark.parametrize("name", REQUESTS)
def test_what_is_hidden_or_partly_allowed_is_answered_as_by_kafka(
    both: tuple[Side, Side], name: str
) -> None:
    version, make = REQUESTS[name]
    ours, theirs = (_told(side.alice.ask(make(side.ids), version)) for side in both)
    assert ours == theirs


def _told(answer: Any) -> Any:
    """Without what is about the brokers, not about the rights."""
    fields = comparable(answer)
    for field in ("brokers", "controller_id", "nodes"):
        fields.pop(field, None)
    return fields
