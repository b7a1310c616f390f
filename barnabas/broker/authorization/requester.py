"""Who sends a request, and what it may do.

In: a call. Out: yes or no for each operation on each resource; denials are recorded.
"""

from typing import TYPE_CHECKING

from barnabas.broker.cluster_member import PEER
from barnabas.broker.net.dispatch import NO_CONNECTION, Call
from barnabas.model.errors import Code, Retriable
from barnabas.security.acl.explain import AclQuestion, deciding_rule
from barnabas.security.acl.hosts import host_text
from barnabas.security.acl.rules import CLUSTER_NAME, AclOperation, AclResourceType
from barnabas.security.principal import Principal
from barnabas.wire.apis import APIS

if TYPE_CHECKING:
    from barnabas.broker.security.authorizer import Authorizer

TOPIC = AclResourceType.TOPIC
GROUP = AclResourceType.GROUP
CLUSTER = AclResourceType.CLUSTER
TRANSACTIONAL_ID = AclResourceType.TRANSACTIONAL_ID
KNOWN_MAX = 1_000
CLIENT_ID_LENGTH_MAX = 200


class Requester:
    """One request's principal and host. `quiet`: a look that denies nothing to the client.
    `named`: the client gave the name itself; it must not learn the name of an id from denials."""

    __slots__ = (
        "_api_key", "_authorizer", "_cached", "_client_id", "_decisions", "_host", "_principal",
    )  # fmt: skip

    def __init__(self, authorizer: "Authorizer", api_key: int, call: Call) -> None:
        connection = call.connection
        self._authorizer = authorizer
        self._decisions = authorizer.decisions
        self._api_key = api_key
        self._client_id = call.client_id
        self._principal = connection.principal
        self._host = host_text(connection.host)
        self._cached = self._decisions.cache.get

    def may(
        self,
        operation: AclOperation,
        type_: AclResourceType,
        name: str,
        *,
        quiet: bool = False,
        named: bool = True,
    ) -> bool:
        if self._decisions.is_allowed(self._principal, self._host, operation, type_, name):
            return True
        if not quiet:
            question = AclQuestion(self._principal, self._host, operation, type_, name)
            self._authorizer.denials.add(
                question,
                APIS[self._api_key].name,
                self._client_id,
                lambda asked: deciding_rule(self._decisions, asked),
                named=named,
            )
        return False

    def topic(
        self, operation: AclOperation, name: str, *, quiet: bool = False, named: bool = True
    ) -> bool:
        allowed = self._cached((self._principal, self._host, TOPIC, name))
        if allowed is not None and allowed >> operation & 1:  # as nearly always
            return True
        return self.may(operation, TOPIC, name, quiet=quiet, named=named)

    def group(self, operation: AclOperation, name: str, *, quiet: bool = False) -> bool:
        return self.may(operation, GROUP, name, quiet=quiet)

    def transactional_id(self, operation: AclOperation, name: str, *, quiet: bool = False) -> bool:
        return self.may(operation, TRANSACTIONAL_ID, name, quiet=quiet)

    def cluster(self, operation: AclOperation, *, quiet: bool = False) -> bool:
        return self.may(operation, CLUSTER, CLUSTER_NAME, quiet=quiet)

    def may_write_somewhere(self) -> bool:
        return self._decisions.is_allowed_on_some(
            self._principal, self._host, AclOperation.WRITE, TOPIC
        )

    def operations(self, type_: AclResourceType, name: str) -> int:
        """The bits of a response's authorized operations."""
        return self._decisions.operations_in_response(self._principal, self._host, type_, name)

    def cluster_operations(self) -> int:
        """0 without the right to describe the cluster, as in Kafka."""
        if not self.cluster(AclOperation.DESCRIBE):
            return 0
        return self.operations(CLUSTER, CLUSTER_NAME)


class Requesters:
    """Those of one API, by principal, address and client id: most requests are of a client that
    has asked before."""

    __slots__ = ("_api_key", "known")

    def __init__(self, api_key: int) -> None:
        self._api_key = api_key
        self.known: dict[tuple[Principal, str, str], Requester] = {}

    def find(self, authorizer: "Authorizer", call: Call) -> Requester | None:
        """None: a broker asks for itself. Brokers are not remembered: their rights may end."""
        connection = call.connection
        decisions = authorizer.decisions
        if is_broker(authorizer, call):
            return None
        if not decisions.loaded and not decisions.is_super(connection.principal):
            # The connection is closed: the client tries again, here or at another broker.
            raise Retriable(
                Code.BROKER_NOT_AVAILABLE,
                "this broker does not know the access rules at the moment",
            )
        found = Requester(authorizer, self._api_key, call)
        if len(call.client_id) <= CLIENT_ID_LENGTH_MAX and not call.client_id.startswith(PEER):
            if len(self.known) >= KNOWN_MAX:
                self.known.clear()
            self.known[connection.principal, connection.host, call.client_id] = found
        return found


def is_broker(authorizer: "Authorizer", call: Call) -> bool:
    """Whether this broker, or another one of the cluster, asks for itself.

    The client id alone proves nothing: its principal must have the right to act as a broker.
    """
    connection = call.connection
    if connection is NO_CONNECTION:
        return True
    return call.client_id.startswith(PEER) and authorizer.decisions.is_allowed(
        connection.principal,
        host_text(connection.host),
        AclOperation.CLUSTER_ACTION,
        CLUSTER,
        CLUSTER_NAME,
    )
