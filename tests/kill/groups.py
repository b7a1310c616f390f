"""A user of groups through every kill: commits, comes together, goes on, deletes.

Always: a commit that was answered is found after a restart, or one that was made after it; a
generation that a member heard of is still its own, and no number of one is used twice; a deleted
group stays deleted. What was cut off may be so or not.
"""

from random import Random

from barnabas.model.errors import Code
from barnabas.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.wire.messages.join_group import JoinGroupResponse
from barnabas.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from barnabas.wire.messages.offset_commit import OffsetCommitResponse
from barnabas.wire.messages.offset_fetch import OffsetFetchResponse
from barnabas.wire.messages.sync_group import SyncGroupResponse
from tests.group_requests import commit_request, committed_request, join_request, sync_request
from tests.kill.ledger import PartitionLedger, Violation
from tests.kill.producers import RECONNECT_S, LoadProducer, Place
from tests.raw import RawClient, name_of

GROUPS = [f"group-{number}" for number in range(6)]
TOPIC = "several"
PARTITION = 0
NOTHING = -1
SESSION_MS = 1_800_000  # nobody expires while the broker is dead
JOIN, SYNC, COMMIT, FETCH = 3, 3, 8, 8  # versions
COMING_BACK = (
    Code.COORDINATOR_LOAD_IN_PROGRESS,
    Code.COORDINATOR_NOT_AVAILABLE,
    Code.NOT_COORDINATOR,
)


class Known:
    """What one group has been answered."""

    def __init__(self) -> None:
        self.committed = NOTHING
        self.unsure: set[int] = set()  # commits, or a deletion, that were cut off
        self.member = ""
        self.generation = 0  # of the member, heard with its share; 0 when it has none
        self.generation_max = 0  # any that was ever heard of
        self.joining = False  # cut off on its way into the next generation


class GroupUser(LoadProducer):
    """One thing at a time, in random order."""

    def __init__(self, port: int, ledgers: dict[Place, PartitionLedger], random: Random) -> None:
        super().__init__("groups", port, ledgers)
        self._random = random
        self._known = {name: Known() for name in GROUPS}
        self._number = 0

    def run(self) -> None:
        while not self.finishing.is_set():
            try:
                with RawClient("127.0.0.1", self.port) as client:
                    self._find(client)
                    for name in GROUPS:
                        self._look(client, name)
                    while not self.finishing.is_set():
                        self._act(client, self._random.choice(GROUPS))
            except TimeoutError:
                raise
            except OSError:
                self.finishing.wait(RECONNECT_S)

    def _find(self, client: RawClient) -> None:
        request = FindCoordinatorRequest(coordinator_keys=GROUPS)
        answer = client.call(request, 4, FindCoordinatorResponse)
        for found in answer.coordinators:
            if found.error_code:
                raise Violation(f"{found.key}: no coordinator: {name_of(found.error_code)}")

    def _act(self, client: RawClient, name: str) -> None:
        known = self._known[name]
        chance = self._random.random()
        if chance < 0.7:
            for _ in range(self._random.randrange(1, 10)):
                self._commit(client, name, known)
        elif chance < 0.85:
            self._join(client, name, known)
        elif known.member:
            self._leave(client, name, known)
        else:
            self._delete(client, name, known)

    def _commit(self, client: RawClient, name: str, known: Known) -> None:
        self._number += 1
        known.unsure.add(self._number)
        request = commit_request(
            name,
            {PARTITION: self._number},
            topic=TOPIC,
            member=known.member,
            generation=known.generation or -1,
            metadata=name,
        )
        answer = client.call(request, COMMIT, OffsetCommitResponse)
        code = answer.topics[0].partitions[0].error_code
        if code:
            raise Violation(f"{name}: a commit was answered {name_of(code)}")
        known.committed = self._number
        known.unsure.clear()
        self.acknowledged += 1

    def _join(self, client: RawClient, name: str, known: Known) -> None:
        """Into the next generation, alone."""
        known.joining = True
        request = join_request(
            name,
            known.member,
            self._random.randbytes(20),
            session_ms=SESSION_MS,
            rebalance_ms=SESSION_MS,
        )
        joined = client.call(request, JOIN, JoinGroupResponse)
        if joined.error_code:
            raise Violation(f"{name}: a join was answered {name_of(joined.error_code)}")
        if joined.generation_id <= known.generation_max:
            raise Violation(
                f"{name}: generation {joined.generation_id} after {known.generation_max}"
            )
        known.member = joined.member_id  # whatever becomes of its sync, this is who has to leave
        share = self._random.randbytes(20)
        shares = {joined.member_id: share}
        sync = sync_request(name, joined.member_id, joined.generation_id, shares)
        synced = client.call(sync, SYNC, SyncGroupResponse)
        if synced.error_code or bytes(synced.assignment) != share:
            raise Violation(f"{name}: a sync was answered {synced}")
        known.generation = known.generation_max = joined.generation_id
        known.joining = False
        self.acknowledged += 1

    def _leave(self, client: RawClient, name: str, known: Known) -> None:
        known.joining = True
        leaving = LeaveGroupRequest(group_id=name, members=[MemberIdentity(member_id=known.member)])
        answer = client.call(leaving, 4, LeaveGroupResponse)
        if answer.members[0].error_code:
            raise Violation(f"{name}: a leave was answered {answer}")
        known.member, known.generation, known.joining = "", 0, False

    def _delete(self, client: RawClient, name: str, known: Known) -> None:
        known.unsure.add(NOTHING)
        answer = client.call(DeleteGroupsRequest(groups_names=[name]), 2, DeleteGroupsResponse)
        code = answer.results[0].error_code
        if code not in (Code.NONE, Code.GROUP_ID_NOT_FOUND):
            raise Violation(f"{name}: a deletion was answered {name_of(code)}")
        self._known[name] = Known()

    # After a restart

    def _look(self, client: RawClient, name: str) -> None:
        """Is everything as it was answered? What was cut off is known from here on."""
        known = self._known[name]
        found = self._fetch(client, name)
        if found != known.committed and found not in known.unsure:
            raise Violation(
                f"{name}: {found} committed, answered was {known.committed}, cut off {known.unsure}"
            )
        if found == NOTHING and NOTHING in known.unsure:
            self._known[name] = known = Known()  # deleted after all
        known.committed = found
        known.unsure.clear()
        if not known.member:
            if known.joining:
                self._drive_out(client, name, known)
            return
        beat = HeartbeatRequest(
            group_id=name, generation_id=known.generation, member_id=known.member
        )
        code = client.call(beat, 4, HeartbeatResponse).error_code
        if code and not known.joining:
            raise Violation(
                f"{name}: generation {known.generation} was answered, now {name_of(code)}"
            )
        if known.joining:
            self._drive_out(client, name, known)

    def _fetch(self, client: RawClient, name: str) -> int:
        request = committed_request(name, [PARTITION], topic=TOPIC)
        while True:
            (answer,) = client.call(request, FETCH, OffsetFetchResponse).groups
            if answer.error_code not in COMING_BACK:
                break
            self.finishing.wait(RECONNECT_S)
        if answer.error_code:
            raise Violation(f"{name}: a fetch was answered {name_of(answer.error_code)}")
        return answer.topics[0].partitions[0].committed_offset

    def _drive_out(self, client: RawClient, name: str, known: Known) -> None:
        """Its member was on its way in or out: make sure that it is out, whatever became of it."""
        if known.member:
            leaving = LeaveGroupRequest(
                group_id=name, members=[MemberIdentity(member_id=known.member)]
            )
            answer = client.call(leaving, 4, LeaveGroupResponse)
            if answer.members[0].error_code not in (Code.NONE, Code.UNKNOWN_MEMBER_ID):
                raise Violation(f"{name}: a leave was answered {answer}")
        known.member, known.generation, known.joining = "", 0, False
