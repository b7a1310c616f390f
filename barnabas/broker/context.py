"""What most parts of a broker need of it, so that they need not know the whole broker."""

import asyncio
from typing import Protocol

from barnabas.broker.metrics import Counts
from barnabas.config.broker import BrokerConfig
from barnabas.model.ports import Clock
from barnabas.system.logs import Logger


class BrokerContext(Protocol):
    """Ask for `id` and `config` each time: both change while a broker runs."""

    id: int
    config: BrokerConfig
    clock: Clock
    loop: asyncio.AbstractEventLoop
    log: Logger
    counts: Counts
