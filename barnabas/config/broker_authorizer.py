"""Broker options about access rules (ACLs). Names are Kafka's."""

from barnabas.config.kinds import Bool, Text
from barnabas.config.option import Option, Scope
from barnabas.config.resolve import Config

STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
# The names that Kafka's own authorizer had in ZooKeeper's times.
OLDER_AUTHORIZERS = (
    "kafka.security.authorizer.AclAuthorizer",
    "kafka.security.auth.SimpleAclAuthorizer",
)


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
