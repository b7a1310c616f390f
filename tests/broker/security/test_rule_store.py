"""Access rules in a keeper: in memory and in a file; tests/zookeeper/ has a real ZooKeeper."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import cast

import pytest

from barnabas.broker.security import rule_store
from barnabas.keeper.keeper import Keeper, Operation
from barnabas.keeper.memory import MemoryKeeper
from barnabas.keeper.sqlite import SqliteKeeper
from barnabas.model.errors import InvalidRequest
from barnabas.security.acl.rules import AclOperation, AclRule, AclRuleFilter, PatternType
from tests.broker.authorization.samples import prefixed, rule

READ = rule("TOPIC READ orders")
WRITE = rule("TOPIC WRITE orders")
PREFIX = prefixed(READ)


@pytest.fixture(params=["memory", "file"])
def keeper(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Keeper]:
    opened: Keeper
    if request.param == "memory":
        opened = MemoryKeeper()
    else:
        opened = SqliteKeeper(str(tmp_path / "keeper.db"))
    rule_store.prepare(opened)
    yield opened
    opened.close()


def check_rules_are_kept(keeper: Keeper) -> None:
    start = rule_store.read_all(keeper)
    assert start.rules == {}
    odd = rule("GROUP READ a/b")
    rule_store.add_rules(keeper, [READ, PREFIX, WRITE, odd, READ])
    everything = rule_store.read_all(keeper)
    assert everything.rules == {
        READ.resource: [READ, WRITE], PREFIX.resource: [PREFIX], odd.resource: [odd],
    }  # fmt: skip
    changes = rule_store.read_changes(keeper, start.seen)
    assert changes is not None
    assert changes.rules == everything.rules
    literal = AclRuleFilter(operation=AclOperation.READ, pattern=PatternType.LITERAL)
    assert rule_store.delete_rules(keeper, [literal]) == [[READ, odd]]
    after = rule_store.read_changes(keeper, changes.seen)
    assert after is not None
    assert after.rules == {READ.resource: [WRITE], odd.resource: []}
    rule_store.delete_rules(keeper, [AclRuleFilter()])
    assert rule_store.read_all(keeper).rules == {}
    assert keeper.children("/kafka-acl/Topic") == []


def test_rules_are_kept(keeper: Keeper) -> None:
    check_rules_are_kept(keeper)


def test_a_reader_that_missed_changes_must_read_everything(keeper: Keeper) -> None:
    start = rule_store.read_all(keeper)
    for number in range(3):
        rule_store.add_rules(keeper, [READ._replace(host=f"10.0.0.{number}")])
    keeper.delete("/kafka-acl-changes/acl_changes_0000000000")
    assert rule_store.read_changes(keeper, start.seen) is None


def test_old_notifications_are_deleted(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule_store, "NOTES_MAX", 2)
    for number in range(5):
        rule_store.add_rules(keeper, [READ._replace(host=f"10.0.0.{number}")])
    assert len(keeper.children("/kafka-acl-changes")) == 2


def test_too_many_rules_of_one_resource_are_refused_and_the_others_stay(keeper: Keeper) -> None:
    rule_store.add_rules(keeper, [READ])
    many = [READ._replace(principal=f"User:{number:0100}") for number in range(8_000)]
    with pytest.raises(InvalidRequest, match="too many ACLs"):
        rule_store.add_rules(keeper, many)
    assert rule_store.read_all(keeper).rules == {READ.resource: [READ]}


class Overtaken:
    """A keeper in which another broker changes the same rules just before the first write."""

    def __init__(self, keeper: Keeper, other: Callable[[], None]) -> None:
        self._keeper = keeper
        self._other: Callable[[], None] | None = other

    def __getattr__(self, name: str) -> object:
        return getattr(self._keeper, name)

    def multi(self, operations: Sequence[Operation]) -> object:
        other, self._other = self._other, None
        if other is not None:
            other()
        return self._keeper.multi(operations)


@pytest.mark.parametrize("present", [[], [READ]], ids=["a new node", "a node that exists"])
def test_a_change_that_was_overtaken_is_made_again(keeper: Keeper, present: list[AclRule]) -> None:
    rule_store.add_rules(keeper, present)
    other = READ._replace(host="10.0.0.9")
    overtaken = Overtaken(keeper, lambda: rule_store.add_rules(keeper, [other]))
    rule_store.add_rules(cast(Keeper, overtaken), [WRITE])
    assert rule_store.read_all(keeper).rules == {READ.resource: [*present, other, WRITE]}
    overtaken = Overtaken(keeper, lambda: rule_store.add_rules(keeper, [READ]))
    which = AclRuleFilter(operation=AclOperation.WRITE)
    assert rule_store.delete_rules(cast(Keeper, overtaken), [which]) == [[WRITE]]
    assert set(rule_store.read_all(keeper).rules[READ.resource]) == {other, READ}
