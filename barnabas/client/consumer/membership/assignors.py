"""The assignors that a classic group can choose from.

In: names, or an `Assignor` of your own. Out: the protocols of JoinGroup, and assignments.
Not here: the algorithms (barnabas.assignment), when partitions are assigned (classic.py).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from barnabas.assignment import CLIENT_ASSIGNORS
from barnabas.assignment import Assignor as Assign
from barnabas.assignment.user_data import Claim, encode_cooperative, encode_sticky
from barnabas.config.option import invalid, nearest
from barnabas.model.ids import TopicPartition

UserData = Callable[[tuple[TopicPartition, ...], int], bytes | None]


@dataclass(frozen=True, slots=True)
class Assignor:
    """An assignment strategy. All members of a group must have one with the same name.

    `assign(members, topics)` gives partitions by member id; the leader of the group calls it.
    `cooperative`: members keep reading the partitions that they keep, and a partition is assigned
    only after its old owner has revoked it. `user_data(owned, generation)` is sent to the leader.
    """

    name: str
    assign: Assign
    cooperative: bool = False
    user_data: UserData | None = None


def _claims_sticky(owned: tuple[TopicPartition, ...], generation: int) -> bytes:
    return encode_sticky(Claim(owned, generation))


def _claims_cooperative(_: tuple[TopicPartition, ...], generation: int) -> bytes:
    return encode_cooperative(generation)


_USER_DATA: dict[str, UserData] = {
    "sticky": _claims_sticky,
    "cooperative-sticky": _claims_cooperative,
}
ASSIGNORS = {
    name: Assignor(name, assign, name == "cooperative-sticky", _USER_DATA.get(name))
    for name, assign in CLIENT_ASSIGNORS.items()
}


def chosen(wanted: Iterable[str | Assignor]) -> tuple[Assignor, ...]:
    """In the order of preference."""
    found: dict[str, Assignor] = {}
    for one in wanted:
        if isinstance(one, str):
            name = one.strip()
            if name.endswith("Assignor"):
                from barnabas.config.unsupported import assignor_name

                name = assignor_name(name)
            if name not in ASSIGNORS:
                hint = nearest(name, ASSIGNORS)
                raise invalid(f"partition.assignment.strategy: no assignor {name[:100]!r}{hint}")
            one = ASSIGNORS[name]
        found.setdefault(one.name, one)
    if not found:
        raise invalid("partition.assignment.strategy names no assignor")
    return tuple(found.values())
