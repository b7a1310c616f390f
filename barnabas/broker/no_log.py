"""Replaces the log of a partition whose log is on another broker or cannot be opened."""

from barnabas.log.config import LogConfig
from barnabas.log.epochs import LeaderEpochs


class NoLog:
    """Empty, and never read: the role of its partition refuses every request."""

    start_offset = end_offset = high_watermark = size = 0

    def __init__(self) -> None:
        self.epochs = LeaderEpochs([])
        self.config = LogConfig()
