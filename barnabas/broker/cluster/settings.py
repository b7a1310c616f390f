"""The dynamic settings in the keeper, as this broker knows them.

In: the keeper's nodes and its change notifications. Out: settings of topics, brokers, groups,
users and subscriptions to client metrics.
Always: a broker that has missed a notification reads everything again.
Not here: changing them (the controller does), applying them (membership.py).
"""

from collections.abc import Iterable, Mapping

from barnabas.keeper import paths
from barnabas.keeper.entity_settings import ENTITY_KINDS, read_config, read_entities
from barnabas.keeper.keeper import Keeper, NoNode

_TOPICS = "topics/"
_BROKERS = "brokers/"


class ClusterSettings:
    """Reading blocks: it runs in the keeper's thread; the results are applied on the loop."""

    def __init__(self) -> None:
        self.topics: dict[str, dict[str, str]] = {}  # those that have any
        self.brokers: dict[int | None, dict[str, str]] = {}  # by id; None: of all brokers
        self.entities: dict[tuple[str, str], dict[str, str]] = {}  # others, by kind and name
        self._seen = -1  # the number of the last notification

    def of_topic(self, name: str) -> dict[str, str]:
        return self.topics.get(name, {})

    def take_all(self, found: "Everything") -> None:
        self.topics, self.brokers, self.entities, self._seen = found

    def take(self, found: "SettingChanges") -> tuple[list[str], bool, list[tuple[str, str]]]:
        """The topics whose settings changed, whether those of brokers did, and the other
        entities."""
        topics: dict[str, None] = {}
        brokers = False
        others: list[tuple[str, str]] = []
        for entity, settings in found.entities.items():
            if entity.startswith(_TOPICS):
                name = entity.removeprefix(_TOPICS)
                if settings:
                    self.topics[name] = settings
                else:
                    self.topics.pop(name, None)
                topics[name] = None
            elif entity.startswith(_BROKERS):
                brokers = True
                self.brokers[broker_of(entity.removeprefix(_BROKERS))] = settings
            else:
                others.append(paths.entity_at(entity))
                if settings or others[-1][0] != paths.TOKENS:
                    self.entities[others[-1]] = settings
                else:  # a token that is over
                    self.entities.pop(others[-1], None)
        self._seen = max(self._seen, found.last)
        return list(topics), brokers, others

    @property
    def seen(self) -> int:
        return self._seen


Everything = tuple[
    dict[str, dict[str, str]],
    dict[int | None, dict[str, str]],
    dict[tuple[str, str], dict[str, str]],
    int,
]


class SettingChanges:
    """The notifications after the last one seen. `missed`: some of them are deleted already."""

    def __init__(self, entities: Mapping[str, dict[str, str]], last: int, missed: bool) -> None:
        self.entities = entities
        self.last = last
        self.missed = missed


def read_all(keeper: Keeper) -> Everything:
    """Notifications first: a change during the read has a later notification."""
    notes = keeper.children(paths.CONFIG_CHANGES, watch=True)
    last = max(map(_number, notes), default=-1)
    topics = {}
    for name in keeper.children(paths.TOPIC_CONFIGS):
        settings = read_config(keeper, paths.topic_config(name))
        if settings:
            topics[name] = settings
    brokers = {}
    for name in keeper.children(paths.BROKER_CONFIGS):
        id_ = broker_of(name)
        brokers[id_] = read_config(keeper, paths.broker_config(id_))
    return topics, brokers, read_entities(keeper), last


def read_changes(keeper: Keeper, seen: int) -> SettingChanges:
    notes = sorted(keeper.children(paths.CONFIG_CHANGES, watch=True), key=_number)
    new = [note for note in notes if _number(note) > seen]
    entities: dict[str, dict[str, str]] = {}
    missed = bool(new) and _number(new[0]) > seen + 1
    for note in new:
        path = f"{paths.CONFIG_CHANGES}/{note}"
        try:
            entity = paths.read_config_change(path, keeper.get(path).data)
        except NoNode:
            missed = True
            continue
        if entity.startswith(_TOPICS):
            entities[entity] = read_config(keeper, paths.topic_config(entity[len(_TOPICS) :]))
        elif entity.startswith(_BROKERS):
            id_ = broker_of(entity[len(_BROKERS) :])
            entities[entity] = read_config(keeper, paths.broker_config(id_))
        elif entity.partition("/")[0] in ENTITY_KINDS:
            entities[entity] = read_config(keeper, f"/config/{entity}")
    return SettingChanges(entities, max(map(_number, new), default=seen), missed)


def read_topics(keeper: Keeper, names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Of topics that are new to this broker; those without settings are left out."""
    found = {name: read_config(keeper, paths.topic_config(name)) for name in names}
    return {name: settings for name, settings in found.items() if settings}


def broker_of(name: str) -> int | None:
    """From the name of its node; None: all brokers."""
    return int(name) if name.isdecimal() else None


def _number(note: str) -> int:
    digits = note.rpartition("_")[2]
    return int(digits) if digits.isdecimal() else -1
