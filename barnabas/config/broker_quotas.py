"""Broker options about quotas of clients. Names are Kafka's. The quotas themselves are no options:
`barnabas quota` and AlterClientQuotas change them."""

from barnabas.config.kinds import INT_MAX, Int
from barnabas.config.option import Option, Scope
from barnabas.config.resolve import Config

WINDOWS_MAX = 10_000  # what is remembered of each client grows with them


class QuotaOptions(Config):
    """Over which time rates are measured, and how many connections may be created."""

    quota_window_num = Option[int](
        name="quota.window.num",
        kind=Int(min=1, max=WINDOWS_MAX),
        default=11,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="How many windows the rate of a client is measured over. A client may use the bytes "
        "of all windows at once.",
    )
    quota_window_size_seconds = Option[int](
        name="quota.window.size.seconds",
        kind=Int(min=1),
        default=1,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="The length of a window for the quotas of clients.",
    )
    controller_quota_window_num = Option[int](
        name="controller.quota.window.num",
        kind=Int(min=1, max=WINDOWS_MAX),
        default=11,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="How many windows of controller_mutation_rate a client may save, and use at once.",
    )
    controller_quota_window_size_seconds = Option[int](
        name="controller.quota.window.size.seconds",
        kind=Int(min=1),
        default=1,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="The length of a window for controller_mutation_rate.",
    )
    max_connection_creation_rate = Option[int](
        name="max.connection.creation.rate",
        kind=Int(min=1),
        default=INT_MAX,
        scope=Scope.BROKER,
        needs_restart=False,
        doc="How many connections clients may create in a second. Further ones are accepted later. "
        "As listener.name.NAME.max.connection.creation.rate: the same for one listener.",
    )
