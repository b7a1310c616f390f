"""Access rules in a real ZooKeeper."""

from barnabas.broker.security import rule_store
from barnabas.keeper.keeper import Event
from barnabas.security.acl.rules import AclRuleFilter
from tests.broker.authorization.samples import rule
from tests.broker.security.test_rule_store import check_rules_are_kept
from tests.waiting import until
from tests.zookeeper.rooms import ZookeeperRoom


def test_rules_are_kept(room: ZookeeperRoom) -> None:
    keeper = room.open().keeper
    rule_store.prepare(keeper)
    check_rules_are_kept(keeper)


def test_a_change_wakes_the_other_brokers(room: ZookeeperRoom) -> None:
    opened, writer = room.open(), room.open().keeper
    reader, heard = opened.keeper, opened.news
    rule_store.prepare(reader)
    seen = rule_store.read_all(reader).seen
    rule_store.add_rules(writer, [rule("TOPIC READ orders")])
    until(lambda: any(isinstance(each, Event) for each in heard))
    changes = rule_store.read_changes(reader, seen)
    assert changes is not None
    heard.clear()
    rule_store.delete_rules(writer, [AclRuleFilter()])
    until(lambda: any(isinstance(each, Event) for each in heard))
