"""What parts of a broker need of it, so that they do not depend on the whole broker.

The dispatcher, the metrics page and the handlers that use many parts take the broker itself.
"""

import asyncio
from typing import TYPE_CHECKING, Protocol

from barnabas.broker.metrics import Counts
from barnabas.config.broker import BrokerConfig
from barnabas.model.errors import KafkaError
from barnabas.model.ports import Clock
from barnabas.system.logs import Logger

if TYPE_CHECKING:
    from barnabas.broker.catalog_interface import AnyCatalog
    from barnabas.broker.cluster.membership import ClusterMembership
    from barnabas.broker.groups.coordination import Coordination
    from barnabas.broker.net.dispatch import Call, Dispatcher
    from barnabas.broker.replicas.roles import Replicas
    from barnabas.broker.share.service import ShareService
    from barnabas.broker.storage.storage import Storage
    from barnabas.broker.topic import Topics
    from barnabas.broker.transactions.coordination import TransactionCoordination
    from barnabas.config.resolve import Layers


class BrokerContext(Protocol):
    """Read `id` and `config` each time: both change while a broker runs."""

    id: int
    config: BrokerConfig
    clock: Clock
    loop: asyncio.AbstractEventLoop
    log: Logger
    counts: Counts


class RefusalsContext(BrokerContext, Protocol):
    """What a handler needs that only accepts or refuses a request."""

    def refused(self, event: str, call: "Call", error: KafkaError, **values: object) -> None:
        """Log a valid request that was refused."""
        ...


class PartitionsContext(RefusalsContext, Protocol):
    """What a handler needs that reads partitions."""

    topics: "Topics"


class ClusterContext(PartitionsContext, Protocol):
    """What handlers of a broker in a cluster need: `cluster` is None on a lone broker."""

    cluster: "ClusterMembership | None"
    replicas: "Replicas | None"


class ReplicasContext(ClusterContext, Protocol):
    """What the replicas of a broker in a cluster need."""

    logs: "Storage"


class GroupsContext(ClusterContext, Protocol):
    """What the group coordinator and the callers of `coordination()` need."""

    catalog: "AnyCatalog"
    layers: "Layers"
    dispatcher: "Dispatcher"
    coordination: "Coordination | None"
    share: "ShareService | None"


class TransactionsContext(GroupsContext, Protocol):
    """What the callers of `transaction_coordination()` need."""

    transactions: "TransactionCoordination | None"
