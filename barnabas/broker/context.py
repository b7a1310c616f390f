"""What most parts of a broker need of it, so that they do not depend on the whole broker."""

import asyncio
from typing import TYPE_CHECKING, Protocol

from barnabas.broker.metrics import Counts
from barnabas.config.broker import BrokerConfig
from barnabas.model.ports import Clock
from barnabas.system.logs import Logger

if TYPE_CHECKING:
    from barnabas.broker.catalog_interface import AnyCatalog
    from barnabas.broker.cluster.membership import ClusterMembership
    from barnabas.broker.groups.coordination import Coordination
    from barnabas.broker.replicas.roles import Replicas
    from barnabas.broker.topic import Topics
    from barnabas.broker.transactions.coordination import TransactionCoordination


class BrokerContext(Protocol):
    """Read `id` and `config` each time: both change while a broker runs."""

    id: int
    config: BrokerConfig
    clock: Clock
    loop: asyncio.AbstractEventLoop
    log: Logger
    counts: Counts


class GroupsContext(BrokerContext, Protocol):
    """What the group coordinator and the callers of `coordination()` need."""

    topics: "Topics"
    catalog: "AnyCatalog"
    cluster: "ClusterMembership | None"
    replicas: "Replicas | None"
    coordination: "Coordination | None"


class TransactionsContext(GroupsContext, Protocol):
    """What the callers of `transaction_coordination()` need."""

    transactions: "TransactionCoordination | None"
