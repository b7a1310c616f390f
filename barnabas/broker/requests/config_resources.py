"""Decides which resource a request names, and changes its settings.

In: type and name of a resource, and changes as received. Out: nothing or an error, for each
resource separately.
Always: a change is computed from the settings that are current when it is executed, so none is
lost; stored settings are valid, for the broker and for every topic.
Not here: the values that an option may have (config/alter.py), where settings are stored
(broker/catalog.py).
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from barnabas.broker.context import BrokerContext
from barnabas.config.alter import (
    Change,
    Operation,
    alter_broker,
    alter_client_metrics,
    alter_group,
    alter_topic,
    without_effect,
)
from barnabas.config.broker import BrokerConfig
from barnabas.config.kinds import ListenerAddress
from barnabas.config.resolve import ConfigSource, Layers
from barnabas.config.topic import TopicConfig
from barnabas.keeper.paths import CLIENT_METRICS, GROUPS
from barnabas.model.errors import Code, InvalidRequest, KafkaError
from barnabas.model.ids import check_topic_name
from barnabas.system.logs import Logger

if TYPE_CHECKING:
    from barnabas.broker.catalog_interface import AnyCatalog
    from barnabas.broker.cluster.membership import ClusterMembership
    from barnabas.broker.cluster_member import ClusterMember
    from barnabas.broker.net.listeners import OpenListeners
    from barnabas.broker.topic import Topic, Topics


R = TypeVar("R")


class ResourcesContext(BrokerContext, Protocol):
    """What this module needs of the broker."""

    layers: Layers
    listeners: "OpenListeners"
    topics: "Topics"
    catalog: "AnyCatalog"
    cluster: "ClusterMembership | None"

    def nodes(self, listener: str) -> "list[ClusterMember]": ...


class ResourceType(IntEnum):
    """The protocol's numbers of resource types."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Alteration(NamedTuple):
    """The changes of one resource: name, operation, text, not checked yet."""

    kind: int
    name: str
    changes: Sequence[tuple[str, int, str | None]]
    replace: bool  # options that are not named return to their default


async def alter_each(
    broker: ResourcesContext,
    alterations: Sequence[Alteration],
    validate_only: bool,
    result: Callable[..., R],
) -> list[R]:
    """Alter the resources one after the other. `result` builds the response for one resource."""
    counts = Counter((each.kind, each.name) for each in alterations)
    results = []
    for each in alterations:
        refusal: KafkaError | None = None
        try:
            if counts[each.kind, each.name] > 1:
                raise _invalid(f"{each.name[:300]!r} is in the request more than once")
            await _alter(broker, each, validate_only)
        except KafkaError as error:
            refusal = error
        results.append(
            result(
                error_code=refusal.code if refusal else 0,
                error_message=refusal.detail if refusal else None,
                resource_type=each.kind,
                resource_name=each.name,
            )
        )
    return results


def existing_topic(topics: "Topics", name: str) -> "Topic":
    return topics.existing(check_topic_name(name))


def which_broker(own: int, name: str) -> int | None:
    """This broker's id, `own`; None for an empty name, which means the defaults of all."""
    if not name:
        return None
    if name != str(own):
        raise _invalid(f"broker {name[:20]!r}: this is broker {own}; ask that broker")
    return own


def altered_broker(broker: ResourcesContext, name: str) -> int | None:
    """In a cluster the controller changes the settings of any broker."""
    if broker.cluster is None or not name:
        return which_broker(broker.id, name)
    known = [node.id for node in broker.nodes("")]
    if not name.isdecimal() or int(name) not in known:
        raise _invalid(f"broker {name[:20]!r} is not registered: {known} are")
    return int(name)


def not_configurable(kind: int) -> KafkaError:
    try:
        what = ResourceType(kind).name.lower().replace("_", " ")
    except ValueError:
        what = f"unknown type {kind}"
    return _invalid(
        f"resources of {what} have no settings here: topics, brokers, groups and client metrics do"
    )


ENTITIES = {ResourceType.GROUP: GROUPS, ResourceType.CLIENT_METRICS: CLIENT_METRICS}
"""Resources that need not exist to have settings, and their folder in the keeper."""


def entity_settings(catalog: "AnyCatalog", kind: int, name: str) -> Mapping[str, str]:
    """Of a group, or of a subscription to client metrics."""
    if not name:
        what = "group" if kind == ResourceType.GROUP else "client metrics subscription"
        raise _invalid(f"the name of a {what} must not be empty")
    return catalog.entities.get((ENTITIES[ResourceType(kind)], name), {})


async def _alter(broker: ResourcesContext, asked: Alteration, validate_only: bool) -> None:
    changes = _changes(asked)

    def changed_topic(current: Mapping[str, str]) -> dict[str, str]:
        settings = alter_topic({} if asked.replace else current, changes)
        TopicConfig(settings, broker.layers)
        return settings

    def changed_broker(current: Mapping[str, str]) -> dict[str, str]:
        settings = alter_broker({} if asked.replace else current, changes)
        _check_in_force(broker, id_, settings)
        return settings

    def changed_entity(current: Mapping[str, str]) -> dict[str, str]:
        before = {} if asked.replace else current
        if asked.kind == ResourceType.GROUP:
            return alter_group(before, changes, broker.layers)
        return alter_client_metrics(before, changes)

    if asked.kind == ResourceType.TOPIC:
        topic = existing_topic(broker.topics, asked.name)
        if validate_only:
            changed_topic(topic.overrides)
        else:
            await broker.catalog.configure_topic(topic, changed_topic)
    elif asked.kind == ResourceType.BROKER:
        id_ = altered_broker(broker, asked.name)
        if validate_only:
            changed_broker(broker.catalog.dynamic.get(id_, {}))
        else:
            await broker.catalog.configure_broker(id_, changed_broker)
            _warn(broker.log, changes)
    elif asked.kind in ENTITIES:
        now = entity_settings(broker.catalog, asked.kind, asked.name)
        if validate_only:
            changed_entity(now)
        else:
            kind = ENTITIES[ResourceType(asked.kind)]
            await broker.catalog.configure_entity(kind, asked.name, changed_entity)
    else:
        raise not_configurable(asked.kind)


def _changes(asked: Alteration) -> list[Change]:
    counts = Counter(name for name, _, _ in asked.changes)
    changes = []
    for name, number, text in asked.changes:
        if counts[name] > 1:
            raise _invalid(f"option {name[:100]!r} is changed twice in one request: change it once")
        try:
            operation = Operation(number)
        except ValueError:
            raise _invalid(f"option {name[:100]!r}: unknown operation {number}") from None
        if text is None and operation is not Operation.DELETE:
            raise _invalid(f"option {name[:100]!r}: no value; delete the option for its default")
        changes.append(Change(name, operation, text))
    return changes


def _check_in_force(broker: ResourcesContext, id_: int | None, settings: Mapping[str, str]) -> None:
    """Settings that conflict with those of another level would keep the broker from starting."""
    dynamic = {**broker.catalog.dynamic, id_: settings}
    static = dict(broker.layers.by_source)[ConfigSource.STATIC_BROKER]
    layers = Layers(static, dynamic.get(None, {}), dynamic.get(broker.id, {}))
    BrokerConfig(layers)
    for topic in broker.topics:
        TopicConfig(topic.overrides, layers)


def _warn(log: Logger, changes: Sequence[Change]) -> None:
    """As at a start, for options that have no effect."""
    given = {change.name: change.text for change in changes if change.text is not None}
    for name, reason in without_effect(given):
        log.warning("option has no effect", option=name, reason=reason)


def values_in_force(broker: ResourcesContext) -> dict[str, str]:
    """The effective values of options for addresses and ids."""
    config = broker.config
    directories = ",".join(config.directories)
    return {
        "advertised.listeners": ",".join(
            str(ListenerAddress(name, *address))
            for name, address in broker.listeners.advertised.items()
        ),
        "broker.id": str(broker.id),
        "listeners": ",".join(map(str, broker.listeners.addresses)),
        "log.dir": directories,
        "log.dirs": directories,
        "node.id": str(broker.id),
    }


def _invalid(detail: str) -> KafkaError:
    return InvalidRequest(Code.INVALID_REQUEST, detail)
