"""Consumers of either protocol, in a world where answers are late or lost."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.coordinators.groups.subscription import partitions_of
from barnabas.model.errors import Code
from tests.coordinators.world import Call, assignment, given

if TYPE_CHECKING:
    from tests.coordinators.histories import Life

PARTITIONS = 4  # of the topic t


class ClassicConsumer:
    """A client that follows the classic protocol, more or less in time."""

    protocol = "classic"

    def __init__(self, life: "Life", number: int) -> None:
        self.life = life
        self.random = life.random
        self.number = number
        self.name = f"c{number}"
        self.instance = f"i{number}" if life.static[number] else None
        self.topics = ["t"]
        self.session = self.random.choice((6_000, 10_000, 30_000))
        self.rebalance = self.random.choice((5_000, 20_000, 60_000))
        self.restart()

    def restart(self) -> None:
        """A new process: it remembers nothing."""
        self.member = ""
        self.generation = -1
        self.call: Call | None = None
        self.heard: Callable[[Call], None] | None = None
        self.positions: dict[int, int] = {}
        self.before: tuple[str, int, dict[int, int]] = ("", -1, {})

    @property
    def identity(self) -> str:
        return self.instance or self.member

    @property
    def epoch(self) -> int:
        return self.generation

    def act(self) -> None:
        """Whatever is next: hear an answer, or say something."""
        if self.call is not None:
            call, heard = self.call, self.heard
            if not call.waits and heard is not None:
                self.call = None
                heard(call)
            elif self.random.random() < 0.02:
                self.call = None  # the request timed out here; over there it still waits
        elif self.generation < 0:
            self.join()
        elif self.random.random() < 0.5:
            self.commit()
        else:
            self.heartbeat()

    def misbehave(self) -> None:
        chance = self.random.random()
        if chance < 0.3:
            self.restart()
        elif chance < 0.5 and self.member:
            self.leave()
        elif chance < 0.7:
            self.topics = ["t", f"u{self.random.randrange(3)}"]
            self.rejoin()
        elif chance < 0.75:
            self.life.world.sync("nobody", self.generation)
        else:
            self.rejoin()

    def broker_gone(self) -> None:
        if self.call is not None and self.call.waits:
            self.call = None

    def leave(self) -> None:
        self.life.world.leave(self.member, instance=self.instance)
        self.restart()

    def holds(self) -> set[int]:
        return set(self.positions) if self.generation >= 0 else set()

    def rejoin(self) -> None:
        if self.call is None:
            self.before = (self.member, self.generation, self.positions)
            self.generation = -1
            self.positions = {}

    def commit_late(self) -> None:
        """A commit that was on its way when the member rejoined."""
        member, generation, positions = self.before
        if positions and 0 <= generation != self.generation:
            self.say_committed(member, generation, positions)

    def join(self) -> None:
        self.heard = self.joined
        self.call = self.life.world.join(
            self.member,
            instance=self.instance,
            topics=self.topics,
            client=self.name,
            session=self.session,
            rebalance=self.rebalance,
            protocols=["range", "sticky"] if self.random.random() < 0.5 else ["range"],
            version=self.random.choice((5, 9)),
        )

    def joined(self, call: Call) -> None:
        response = call.response
        if call.code is Code.MEMBER_ID_REQUIRED:
            self.member = response.member_id
            self.join()
        elif call.code is Code.NONE:
            self.member = response.member_id
            leads = response.leader == self.member and not response.skip_assignment
            given: dict[str, list[int]] = {m.member_id: [] for m in response.members}
            if leads:
                ids = list(given)
                for index in range(PARTITIONS):
                    given[ids[index % len(ids)]].append(index)
            self.sync(response.generation_id, given if leads else {})
        else:
            self.refused(call.code)

    def sync(self, generation: int, given: dict[str, list[int]]) -> None:
        def synced(call: Call) -> None:
            if call.code is not Code.NONE:
                self.refused(call.code)
                return
            self.generation = generation
            partitions = partitions_of(call.response.assignment)
            assert partitions is not None
            indexes = [index for topic, index in partitions if topic == "t"]
            self.life.owns(self, generation, indexes)
            self.positions = {index: self.life.world.fetch("t", index)[0] for index in indexes}

        self.heard = synced
        self.call = self.life.world.sync(
            self.member,
            generation,
            {member: assignment({"t": indexes}) for member, indexes in given.items()},
            instance=self.instance,
        )

    def refused(self, code: Code) -> None:
        if code is Code.FENCED_INSTANCE_ID:
            self.restart()
        elif code in (Code.UNKNOWN_MEMBER_ID, Code.ILLEGAL_GENERATION):
            self.member = ""
        self.generation = -1
        self.positions = {}

    def heartbeat(self) -> None:
        code = self.life.world.heartbeat(self.member, self.generation, instance=self.instance)
        if code is Code.REBALANCE_IN_PROGRESS:
            if self.random.random() < 0.5:
                self.commit()
            self.rejoin()
        elif code:
            self.refused(code)

    def commit(self) -> None:
        """Reads on in one of its partitions and says so; a stalled member may be long out."""
        if self.positions:
            code = self.say_committed(self.member, self.generation, self.positions)
            if code not in (Code.NONE, Code.NOT_COORDINATOR):
                self.rejoin()

    def say_committed(self, member: str, generation: int, positions: dict[int, int]) -> Code:
        index = self.random.choice(list(positions))
        positions[index] += self.random.randrange(5) + 1
        code = self.life.world.commit_code(
            positions[index],
            partition=index,
            member=member,
            generation=generation,
            instance=self.instance,
        )
        if code is Code.NONE:
            self.life.committed(index, positions[index])
        return code


class NewConsumer:
    """A client of the consumer protocol: it releases partitions, then reports it."""

    protocol = "consumer"

    def __init__(self, life: "Life", number: int) -> None:
        self.life = life
        self.random = life.random
        self.number = number
        self.instance = f"i{number}" if life.static[number] else None
        self.topics: list[str] = ["t"]
        self.regex: str | None = None
        self.rebalance = self.random.choice((5_000, 20_000, 60_000))
        self.assignor = self.random.choice((None, None, "uniform", "range"))
        self.restart()

    def restart(self) -> None:
        self.call: Call | None = None
        self.member = f"n{next(self.life.names)}"
        self.positions: dict[int, int] = {}
        self.others: set[tuple[str, int]] = set()  # of other topics
        self.lost: tuple[str, int, dict[int, int]] = ("", -1, {})
        self.epoch = 0
        self.says_all = True

    @property
    def identity(self) -> str:
        return self.instance or self.member

    def holds(self) -> set[int]:
        return set(self.positions)

    def act(self) -> None:
        if self.call is not None:  # its first heartbeat in a new group is answered later
            if not self.call.waits:
                call, self.call = self.call, None
                self.heard(call)
        elif self.epoch > 0 and self.positions and self.random.random() < 0.5:
            self.commit()
        else:
            self.beat()

    def beat(self) -> None:
        joins = self.epoch == 0
        says_all = joins or self.says_all
        call = self.life.world.beat(
            self.member,
            self.epoch,
            owned=self.owned() if says_all or self.random.random() < 0.3 else None,
            topics=self.topics if says_all else None,
            regex=(self.regex or "") if says_all else None,
            instance=self.instance,
            rebalance=self.rebalance if says_all else -1,
            assignor=self.assignor if says_all else None,
        )
        if call.waits:
            assert joins
            self.call = call
        else:
            self.heard(call)

    def heard(self, call: Call) -> None:
        if self.random.random() < 0.04:
            self.says_all = True  # the answer got lost
        elif call.code:
            self.refused(call.code)
        else:
            self.says_all = False
            self.epoch = call.response.member_epoch
            told = given(call, self.life.world.topics)
            if told is not None:
                self.own(told)

    def owned(self) -> dict[str, list[int]]:
        owned: dict[str, list[int]] = {"t": list(self.positions)} if self.positions else {}
        for topic, index in self.others:
            owned.setdefault(topic, []).append(index)
        return owned

    def own(self, told: dict[str, list[int]]) -> None:
        """Gives up first what it must, perhaps with a last commit, then takes what is new."""
        wanted = told.get("t", [])
        gone = [index for index in self.positions if index not in wanted]
        if gone and self.random.random() < 0.5:
            self.commit(self.random.choice(gone))
        if gone:
            self.lost = (self.member, self.epoch, {i: self.positions[i] for i in gone})
        new = [index for index in wanted if index not in self.positions]
        if gone or new:
            self.says_all = True
        for index in gone:
            self.positions.pop(index, None)
        for index in new:
            self.positions[index] = self.life.world.fetch("t", index)[0]
        self.others = {(t, i) for t, indexes in told.items() if t != "t" for i in indexes}

    def refused(self, code: Code) -> None:
        if code is Code.FENCED_INSTANCE_ID:
            self.restart()
        elif code in (
            Code.FENCED_MEMBER_EPOCH,
            Code.UNKNOWN_MEMBER_ID,
            Code.GROUP_ID_NOT_FOUND,
        ):
            self.drop_all()
        elif code is Code.GROUP_MAX_SIZE_REACHED or code is Code.UNRELEASED_INSTANCE_ID:
            assert self.epoch == 0
        else:
            assert code in (Code.NOT_COORDINATOR, Code.COORDINATOR_NOT_AVAILABLE), code
            self.says_all = True

    def drop_all(self) -> None:
        self.call = None
        if self.positions:
            self.lost = (self.member, self.epoch, self.positions)
        self.positions, self.others = {}, set()
        self.epoch = 0

    def commit(self, index: int | None = None) -> None:
        """Reads on and says so; it may be long out."""
        if index is None:
            index = self.random.choice(list(self.positions))
        self.positions[index] += self.random.randrange(5) + 1
        code = self.say_committed(self.member, self.epoch, index, self.positions[index])
        if code is Code.STALE_MEMBER_EPOCH:
            self.says_all = True  # an answer got lost: the next heartbeat tells
        elif code in (Code.UNKNOWN_MEMBER_ID, Code.GROUP_ID_NOT_FOUND, Code.ILLEGAL_GENERATION):
            self.drop_all()

    def commit_late(self) -> None:
        """A commit that was on its way when the partition was lost."""
        member, epoch, positions = self.lost
        for index, position in positions.items():
            if index not in self.positions:
                self.say_committed(member, epoch, index, position + 1)
                return

    def say_committed(self, member: str, epoch: int, index: int, offset: int) -> Code:
        code = self.life.world.commit_code(
            offset, partition=index, member=member, generation=epoch, instance=self.instance
        )
        if code is Code.NONE:
            self.life.committed(index, offset)
        return code

    def misbehave(self) -> None:
        chance = self.random.random()
        if chance < 0.35:
            self.restart()
        elif chance < 0.6:
            self.leave()
        elif chance < 0.8:
            self.topics = self.random.choice((["t"], ["t", "u0"], ["t", "u1", "u2"]))
            self.regex = self.random.choice((None, "u.*", "u[01]"))
            self.says_all = True
        else:
            self.drop_all()

    def broker_gone(self) -> None:
        self.call = None
        self.says_all = True

    def leave(self) -> None:
        if self.epoch > 0:
            away = self.instance is not None and self.random.random() < 0.7
            self.life.world.beat(self.member, -2 if away else -1, instance=self.instance)
        self.restart()

    def rejoin(self) -> None:
        self.says_all = True
