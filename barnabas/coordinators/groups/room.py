"""How much the members of all classic groups may take up before their generation is in the log.

A classic member brings metadata of its own making, and a name is given to whoever asks for one:
without a bound, anyone could fill the broker's memory by joining under many names. What is in the
log is bounded by the log.
"""

MEMBER_BYTES = 2_000  # a member or a name given out, without its metadata
NAMES_BYTES = 500  # of its names, which that includes


def names_weight(*names: str | None) -> int:
    """What names that are longer than honest ones weigh beyond a member's own weight."""
    return max(0, sum(len(name or "") for name in names) - NAMES_BYTES)


class Room:
    """Shared by all groups of a broker."""

    __slots__ = ("bytes_max", "used")

    def __init__(self, bytes_max: int = 256 * 1024 * 1024) -> None:
        self.bytes_max = bytes_max
        self.used = 0

    def lacks(self, size: int) -> bool:
        return self.used + size + MEMBER_BYTES > self.bytes_max
