"""The controller's changes as nodes of the keeper, and its nodes as what the controller reads.

In: changes and reads of the controller (controller/steps.py). Out: nodes, versions, values.
Always: every write includes a check of the epoch that this controller was elected with, in the same
transaction: a controller that was replaced cannot write any more.
Its calls block: they run in the keeper's thread.
Not here: when to write what (controller/), running it (controller_election.py), the reads
(store_reads.py).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from barnabas.broker.controller.store_reads import (
    config_path,
    read_all,
    read_brokers,
    read_config,
)
from barnabas.controller.state import (
    Assignment,
    PartitionLeadership,
)
from barnabas.controller.steps import (
    Change,
    Conflict,
    ForgetBroker,
    MarkDeleted,
    NewState,
    NewTopic,
    Read,
    ReadAll,
    ReadBrokers,
    RememberBroker,
    RemoveStates,
    RemoveTopic,
    SetAssignments,
    SetConfig,
    SetState,
    Unmark,
    WriteTooLarge,
)
from barnabas.keeper import controller_paths as nodes
from barnabas.keeper import paths
from barnabas.keeper.keeper import (
    Check,
    Create,
    Delete,
    Keeper,
    KeeperError,
    NoNode,
    Operation,
    Result,
    Set,
    TooLarge,
    ensure,
    parent,
    with_parents,
)
from barnabas.model.errors import Code
from barnabas.model.ids import BrokerId

NOTES_MAX = 100  # of changed settings; a broker that has missed some of them reads everything


class Deposed(Exception):
    """Another controller was elected since."""


class Elected(NamedTuple):
    """Who is controller. `store` is set if it is this broker."""

    controller: BrokerId
    epoch: int
    store: "ControllerStore | None"


def stand(keeper: Keeper, broker: BrokerId, wall_ms: int, *, holding: bool) -> Elected | None:
    """Become controller if there is none; None: try again. /controller is watched from now on.

    `holding`: this broker is controller, and checks whether it still is.
    """
    if not keeper.exists(nodes.CONTROLLER_EPOCH):
        ensure(keeper, nodes.CONTROLLER_EPOCH)
    found = keeper.get(nodes.CONTROLLER_EPOCH)
    epoch = nodes.read_epoch(nodes.CONTROLLER_EPOCH, found.data)
    operations: list[Operation] = []
    if keeper.exists(nodes.CONTROLLER, watch=True):
        try:
            holder = keeper.get(nodes.CONTROLLER)
        except NoNode:
            return None
        if holding or holder.owner != keeper.session:
            id_ = nodes.read_controller(nodes.CONTROLLER, holder.data)
            return Elected(BrokerId(id_), epoch, None)
        operations.append(Delete(nodes.CONTROLLER))  # ours, of a tenure that has ended
    operations += [
        Create(nodes.CONTROLLER, nodes.controller_data(broker, wall_ms), ephemeral=True),
        Set(nodes.CONTROLLER_EPOCH, str(epoch + 1).encode(), found.version),
    ]
    try:
        *_, version = keeper.multi(operations)
    except KeeperError:  # another was faster
        return None
    assert isinstance(version, int)
    return Elected(broker, epoch + 1, ControllerStore(keeper, version))


def give_up(keeper: Keeper) -> None:
    """Delete /controller, if it belongs to this session."""
    try:
        found = keeper.get(nodes.CONTROLLER)
        if found.owner == keeper.session:
            keeper.delete(nodes.CONTROLLER, found.version)
    except KeeperError:
        pass


class ControllerStore:
    """For one tenure."""

    def __init__(self, keeper: Keeper, epoch_version: int) -> None:
        self._keeper = keeper
        self._check = Check(nodes.CONTROLLER_EPOCH, epoch_version)

    # Writing

    def write(self, changes: Sequence[Change]) -> list[int | None]:
        """The new version of each node. Conflict: not done. Deposed: never again."""
        operations: list[Operation] = [self._check]
        last = []
        notes = False
        for change in changes:
            operations += self._operations(change)
            last.append(len(operations) - 1)
            notes = notes or isinstance(change, SetConfig)
        try:
            results = self._keeper.multi(operations)
        except TooLarge as error:
            raise _too_large(changes, error) from None
        except KeeperError as error:
            if error.path == nodes.CONTROLLER_EPOCH:
                raise Deposed(str(error)) from None
            raise Conflict(str(error)) from None
        if notes:
            self._forget_notes()
        return [_version(change, results[at]) for change, at in zip(changes, last, strict=True)]

    def _operations(self, change: Change) -> list[Operation]:
        make: Callable[..., list[Operation]] = _MAKERS[type(change)]
        return make(self, change)

    def _new_topic(self, change: NewTopic) -> list[Operation]:
        name = change.name
        data = nodes.topic_data(_topic_node(change.id, change.assignments))
        operations: list[Operation] = [
            Create(paths.topic(name), data),
            Create(nodes.partitions(name)),
        ]
        path = paths.topic_config(name)
        if self._keeper.exists(path):  # left by a topic whose deletion was interrupted
            operations.append(Delete(path))
        if change.settings:
            operations.append(Create(path, paths.config_data(change.settings)))
        return operations

    def _new_state(self, change: NewState) -> list[Operation]:
        topic, index = change.name
        return [
            Create(nodes.partition(topic, index)),
            Create(nodes.state(topic, index), _state_data(change.state)),
        ]

    def _set_state(self, change: SetState) -> list[Operation]:
        path = nodes.state(*change.name)
        return [Set(path, _state_data(change.state), change.state.version)]

    def _set_assignments(self, change: SetAssignments) -> list[Operation]:
        data = nodes.topic_data(_topic_node(change.id, change.assignments))
        operations: list[Operation] = [Set(paths.topic(change.topic), data)]
        if not self._keeper.exists(nodes.partitions(change.topic)):
            operations.append(Create(nodes.partitions(change.topic)))
        return operations

    def _mark_deleted(self, change: MarkDeleted) -> list[Operation]:
        path = paths.deleted_topic(change.topic)
        node = nodes.DeletionNode(change.id, change.partitions, change.brokers)
        before: list[Operation] = [Delete(path)] if self._keeper.exists(path) else []
        return [*before, Create(path, nodes.deletion_data(node))]

    def _remove_states(self, change: RemoveStates) -> list[Operation]:
        """Those that exist: a deletion may have been interrupted before."""
        asked = [
            path
            for index in change.partitions
            for path in (nodes.state(change.topic, index), nodes.partition(change.topic, index))
        ]
        found = zip(asked, self._keeper.get_many(asked), strict=True)
        return [Delete(path) for path, node in found if node is not None] or [self._check]

    def _remove_topic(self, change: RemoveTopic) -> list[Operation]:
        name = change.topic
        some = (nodes.partitions(name), paths.topic_config(name))
        there = [Delete(path) for path in some if self._keeper.exists(path)]
        return [*there, Delete(paths.topic(name))]

    def _unmark(self, change: Unmark) -> list[Operation]:
        path = paths.deleted_topic(change.topic)
        return [Delete(path)] if self._keeper.exists(path) else [self._check]

    def _set_config(self, change: SetConfig) -> list[Operation]:
        path = config_path(change.kind, change.name)
        data = paths.config_data(change.settings)
        there = self._keeper.exists(path)
        entity = path.removeprefix("/config/")
        note = paths.config_change_data(entity)
        # Only the settings of a user's client are deeper than the folders of all kinds.
        above = with_parents(parent(path)) if entity.count("/") > 1 else []
        return [
            *(Create(each, b"") for each in above if not self._keeper.exists(each)),
            Set(path, data) if there else Create(path, data),
            Create(paths.CONFIG_CHANGE, note, sequential=True),
        ]

    def _remember_broker(self, change: RememberBroker) -> list[Operation]:
        id_, rack, directories, lost_epoch = change.broker
        path = nodes.known_broker(id_)
        data = nodes.known_broker_data(nodes.KnownBrokerNode(rack, directories, lost_epoch))
        return [Set(path, data) if self._keeper.exists(path) else Create(path, data)]

    def _forget_broker(self, change: ForgetBroker) -> list[Operation]:
        some = (paths.broker_config(change.broker), nodes.known_broker(change.broker))
        return [Delete(path) for path in some if self._keeper.exists(path)] or [self._check]

    def _forget_notes(self) -> None:
        notes = self._keeper.children(paths.CONFIG_CHANGES)
        old: list[Operation] = [
            Delete(f"{paths.CONFIG_CHANGES}/{note}") for note in notes[:-NOTES_MAX]
        ]
        if old:
            try:
                self._keeper.multi([self._check, *old])
            except KeeperError:
                pass  # the next change removes them

    # Reading

    def read(self, question: Read) -> object:
        if isinstance(question, ReadAll):
            return read_all(self._keeper)
        if isinstance(question, ReadBrokers):
            return read_brokers(self._keeper)
        return read_config(self._keeper, question.kind, question.name)


_MAKERS: dict[type, Callable[..., list[Operation]]] = {
    NewTopic: ControllerStore._new_topic,
    NewState: ControllerStore._new_state,
    SetState: ControllerStore._set_state,
    SetAssignments: ControllerStore._set_assignments,
    MarkDeleted: ControllerStore._mark_deleted,
    RemoveStates: ControllerStore._remove_states,
    RemoveTopic: ControllerStore._remove_topic,
    Unmark: ControllerStore._unmark,
    SetConfig: ControllerStore._set_config,
    RememberBroker: ControllerStore._remember_broker,
    ForgetBroker: ControllerStore._forget_broker,
}


def _too_large(changes: Sequence[Change], error: TooLarge) -> WriteTooLarge:
    """Names the change that is written, whatever the request named."""
    size = f"in one write of {error.size} bytes; the limit of ZooKeeper is {error.limit}"
    for change in changes:
        if isinstance(change, NewTopic | SetAssignments):
            name = change.name if isinstance(change, NewTopic) else change.topic
            return WriteTooLarge(
                Code.INVALID_PARTITIONS,
                f"topic {name!r} with {len(change.assignments)} partitions cannot be stored {size}:"
                " use fewer partitions, or fewer replicas, in each of several topics",
            )
        if isinstance(change, SetConfig):
            return WriteTooLarge(
                Code.INVALID_CONFIG,
                f"the settings of {change.kind} {change.name!r} cannot be stored {size}: use"
                " shorter values",
            )
    return WriteTooLarge(Code.INVALID_REQUEST, f"{len(changes)} changes cannot be stored {size}")


def _version(change: Change, result: Result) -> int | None:
    """A new node has version 0."""
    if isinstance(change, NewState):
        return 0
    return result if isinstance(result, int) else None


def _topic_node(id_: UUID, assignments: Mapping[int, Assignment]) -> nodes.TopicNode:
    return nodes.TopicNode(
        id_,
        {index: each.replicas for index, each in assignments.items()},
        {index: each.adding for index, each in assignments.items() if each.adding},
        {index: each.removing for index, each in assignments.items() if each.removing},
    )


def _state_data(state: PartitionLeadership) -> bytes:
    return nodes.state_data(
        nodes.StateNode(
            state.leader,
            state.leader_epoch,
            state.isr,
            state.controller_epoch,
            state.recovering,
            state.isr_epochs,
            state.elr,
        )
    )
