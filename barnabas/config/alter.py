"""Decides whether settings are accepted: at start, when a topic is created, and by request.

In: names and text from the user. Out: the settings to store, or INVALID_CONFIG.
Always: the returned settings resolve without an error.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from barnabas.config import broker, topic, unsupported
from barnabas.config.broker import BrokerConfig
from barnabas.config.kinds import List
from barnabas.config.listener_options import PREFIX, check_name, renamed, split_name
from barnabas.config.option import Option, invalid, nearest
from barnabas.config.resolve import Layers
from barnabas.config.topic import TopicConfig
from barnabas.model.errors import Code, InvalidRequest

_REMOVED = {
    "message.downconversion.enable": "Kafka 4.0 removed it; leave it out",
    "message.format.version": "Kafka 4.0 removed it; leave it out",
    "message.timestamp.difference.max.ms": "Kafka 4.0 removed it; set "
    "message.timestamp.before.max.ms and message.timestamp.after.max.ms",
}


class Operation(IntEnum):
    """What IncrementalAlterConfigs does with a value."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Change(NamedTuple):
    """One change of one option."""

    name: str
    operation: Operation
    text: str | None = None


def topic_option(name: str) -> Option[Any]:
    if option := topic.ALL.get(name):
        return option
    if reason := _REMOVED.get(name):
        raise invalid(f"topic option {name}: {reason}")
    raise invalid(f"unknown topic option {name[:100]!r}{nearest(name, topic.ALL)}")


def broker_option(name: str) -> Option[Any]:
    """The same rule at start and when settings are altered; has_effect says whether the option has
    an effect.
    """
    if option := broker.OPTIONS.get(name):
        return option
    if name.startswith(PREFIX):
        return renamed(broker.OPTIONS[check_name(name, broker.OPTIONS)], name)
    if unsupported.is_refused(name):
        from barnabas.config.kafka_options import reason

        raise invalid(f"broker option {name[:100]}: leave it out. {reason(name)}")
    if unsupported.is_ignored(name):
        from barnabas.config.kafka_options import ignored_option

        return ignored_option(name)
    if older := unsupported.OLD_BROKER.get(name):
        raise invalid(f"broker option {name}: {older}")
    raise invalid(f"unknown broker option {name[:100]!r}{nearest(name, broker.OPTIONS)}")


def without_effect(settings: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The broker options that are accepted and have no effect, with the reason. Options at their
    default are left out.
    """
    for name, text in settings.items():
        option = broker.OPTIONS.get(name)
        if name.startswith(PREFIX):
            continue
        if option is None:
            from barnabas.config.kafka_options import reason

            yield name, reason(name)
        elif not option.has_effect and option.parse(text) != option.default:
            yield name, "Barnabas does not use it yet."


def check_topic(overrides: Mapping[str, str | None]) -> dict[str, str]:
    """The settings of a topic, each checked alone and all together."""
    checked: dict[str, str] = {}
    for name, text in overrides.items():
        option = topic_option(name)
        if text is None:
            raise invalid(f"topic option {name}: no value given; leave it out for its default")
        option.parse(text)
        checked[name] = text
    TopicConfig(checked)
    return checked


def check_static(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings a broker starts with."""
    for name, text in settings.items():
        broker_option(name).parse(text)
    config = BrokerConfig(settings)
    listeners = {each.name.lower() for each in config.listeners}
    for name in settings:
        if name.startswith(PREFIX) and (listener := split_name(name).listener) not in listeners:
            raise invalid(
                f"broker option {name[:100]}: there is no listener {listener.upper()[:100]};"
                f" listeners has {', '.join(sorted(each.upper() for each in listeners))}"
            )
    return dict(settings)


def alter_topic(current: Mapping[str, str], changes: Iterable[Change]) -> dict[str, str]:
    """The settings of a topic after the changes; `current` is not changed."""
    return check_topic(_changed(current, changes, topic_option))


def alter_group(
    current: Mapping[str, str], changes: Iterable[Change], layers: Layers
) -> dict[str, str]:
    """The settings of a group after the changes, within the broker's limits."""
    from barnabas.config import group

    def find(name: str) -> Option[Any]:
        if option := group.ALL.get(name):
            return option
        raise invalid(f"unknown group option {name[:100]!r}{nearest(name, group.ALL)}")

    changed = _changed(current, changes, find)
    for name, text in changed.items():
        find(name).parse(text)
    group.check_bounds(changed, layers)
    return changed


def alter_client_metrics(current: Mapping[str, str], changes: Iterable[Change]) -> dict[str, str]:
    """The settings of a subscription to clients' metrics after the changes."""
    from barnabas.config import client_metrics

    def find(name: str) -> Option[Any]:
        if option := client_metrics.ALL.get(name):
            return option
        hint = nearest(name, client_metrics.ALL)
        detail = f"unknown client metrics option {name[:100]!r}{hint}"
        raise InvalidRequest(Code.INVALID_REQUEST, detail)

    changed = _changed(current, changes, find)
    for name, text in changed.items():
        find(name).parse(text)
    client_metrics.check(changed)
    return changed


def alter_broker(current: Mapping[str, str], changes: Iterable[Change]) -> dict[str, str]:
    """The dynamic settings of a broker, or of all brokers, after the changes."""
    changes = list(changes)
    for change in changes:
        if broker_option(change.name).needs_restart:
            raise invalid(
                f"broker option {change.name} cannot change while the broker runs: set it at start"
            )
    changed = _changed(current, changes, broker_option)
    for name, text in changed.items():
        broker_option(name).parse(text)
    BrokerConfig(Layers(dynamic_broker=changed))
    return changed


def _changed(
    current: Mapping[str, str], changes: Iterable[Change], find: Callable[[str], Option[Any]]
) -> dict[str, str]:
    settings = dict(current)
    seen: set[str] = set()
    for name, operation, text in changes:
        option = find(name)
        if name in seen:
            raise invalid(f"option {name} is changed twice in one request: change it once")
        seen.add(name)
        if operation is Operation.DELETE:
            settings.pop(name, None)
            continue
        if text is None:
            raise invalid(f"option {name}: no value given; delete it for its default")
        if operation is Operation.SET:
            settings[name] = text
            continue
        if not isinstance(option.kind, List):
            raise invalid(f"option {name} is not a list: set it instead")
        before = option.parse(settings[name]) if name in settings else option.default or ()
        words = option.parse(text)
        if operation is Operation.APPEND:
            after = (*before, *(word for word in words if word not in before))
        else:
            after = tuple(word for word in before if word not in words)
        settings[name] = option.kind.format(after)
    return settings
