"""The five states of a classic group, and which may follow which; those of a new one."""

from enum import Enum


class State(Enum):
    """The value is the name that Kafka's tools show."""

    EMPTY = "Empty"  # no members; perhaps offsets
    PREPARING = "PreparingRebalance"  # members are asked to join again
    COMPLETING = "CompletingRebalance"  # a generation is there, its assignment is not
    STABLE = "Stable"  # everyone has its share, and the log has it too
    DEAD = "Dead"  # deleted, or led elsewhere


# To move into the state on the left, a group must be in one of those on the right.
BEFORE: dict[State, tuple[State, ...]] = {
    State.EMPTY: (State.PREPARING,),
    State.PREPARING: (State.EMPTY, State.COMPLETING, State.STABLE),
    State.COMPLETING: (State.PREPARING,),
    State.STABLE: (State.COMPLETING,),
    State.DEAD: (State.EMPTY, State.PREPARING, State.COMPLETING, State.STABLE),
}


def check_move(group: str, before: State, after: State) -> None:
    """A wrong move is a fault of ours, never of a request."""
    assert before in BEFORE[after], (
        f"group {group!r} cannot go from {before.value} to {after.value}"
    )


class ConsumerStage(Enum):
    """Of a group of the new protocol: it follows from epochs, nobody sets it."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"  # its epoch is ahead of its targets
    RECONCILING = "Reconciling"  # members are on their way to their targets
    STABLE = "Stable"
