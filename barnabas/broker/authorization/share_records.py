"""ShareFetch and ShareAcknowledge: the rights to read a group and its topics.

Always: a broker without share groups imports none of their code.
"""

from typing import TYPE_CHECKING, Any

from barnabas.broker.authorization.answers import Handle
from barnabas.broker.authorization.requester import Requester
from barnabas.broker.net.dispatch import Call
from barnabas.model.errors import Code
from barnabas.security.acl.rules import AclOperation

if TYPE_CHECKING:
    from uuid import UUID

    from barnabas.broker.broker import Broker
    from barnabas.broker.share.acknowledgements import Denied
    from barnabas.wire.messages.share_acknowledge import ShareAcknowledgeRequest
    from barnabas.wire.messages.share_fetch import ShareFetchRequest

READ = AclOperation.READ
DENIED = Code.GROUP_AUTHORIZATION_FAILED


def share_fetch_check(
    handle: Handle, broker: "Broker", request: "ShareFetchRequest", call: Call, caller: Requester
) -> Any:
    """The handler asks for each topic of the session, and again when a long poll ends."""
    from barnabas.broker.handlers import share_fetch

    if request.group_id is not None and not caller.group(READ, request.group_id):
        return share_fetch.refused(DENIED)
    return share_fetch.handle(broker, request, call, _denied(broker, caller))


def share_acknowledge_check(
    handle: Handle,
    broker: "Broker",
    request: "ShareAcknowledgeRequest",
    call: Call,
    caller: Requester,
) -> Any:
    from barnabas.broker.handlers import share_acknowledge

    if request.group_id is not None and not caller.group(READ, request.group_id):
        return share_acknowledge.refused(DENIED)
    return share_acknowledge.handle(broker, request, call, _denied(broker, caller))


def _denied(broker: "Broker", caller: Requester) -> "Denied":
    def denied(topic_id: "UUID") -> bool:
        known = broker.topics.by_id(topic_id)
        return known is not None and not caller.topic(READ, known.name, named=False)

    return denied
