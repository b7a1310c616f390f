"""Broker options about what clients may do: access rules (ACLs) and quotas. Names are Kafka's.

The rules and quotas themselves are no options: `barnabas acl` and `barnabas quota` change them.
"""

from barnabas.config.kinds import INT_MAX, Bool, Int, Text
from barnabas.config.option import Option, Scope
from barnabas.config.resolve import Config

STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
# The names that Kafka's own authorizer had in ZooKeeper's times.
OLDER_AUTHORIZERS = (
    "kafka.security.authorizer.AclAuthorizer",
    "kafka.security.auth.SimpleAclAuthorizer",
)
WINDOWS_MAX = 10_000  # what is remembered of each client grows with them


class AuthorizerName(Text):
    """Any name of Kafka's own authorizer, or nothing."""

    __slots__ = ()

    def parse(self, text: str) -> str:
        name = text.strip()
        if name not in ("", STANDARD_AUTHORIZER, *OLDER_AUTHORIZERS):
            raise ValueError(f"expected {self.bounds()}: Java classes cannot be loaded")
        return name

    def bounds(self) -> str:
        return f"{STANDARD_AUTHORIZER}, or empty"


class AuthorizerOptions(Config):
    """Whether requests are authorized by rules, and what holds without them."""

    authorizer_class_name = Option[str](
        name="authorizer.class.name",
        kind=AuthorizerName(),
        default="",
        scope=Scope.BROKER,
        needs_restart=True,
        doc="Any name of Kafka's own authorizer turns access rules (ACLs) on: what no rule allows "
        "is denied. Unset: every client may do everything. Set it on all brokers of a cluster.",
    )
    super_users = Option[str](
        name="super.users",
        kind=Text(),
        default="",
        scope=Scope.BROKER,
        needs_restart=True,
        doc="The principals that may do everything, with `;` between them: `User:admin;User:ops`. "
        "The brokers' own principal belongs here.",
    )
    allow_everyone_if_no_acl_found = Option[bool](
        name="allow.everyone.if.no.acl.found",
        kind=Bool(),
        default=False,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="Whether a resource that no rule covers is open to every client.",
    )


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
