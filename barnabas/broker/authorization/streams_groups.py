"""Requests about streams groups: members, their topologies and internal topics."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from barnabas.broker.authorization.answers import Handle
from barnabas.broker.authorization.group_requests import GroupDescription, describe_check
from barnabas.broker.authorization.requester import Requester
from barnabas.broker.net.dispatch import Call
from barnabas.model.errors import Code
from barnabas.security.acl.rules import AclOperation

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

DENIED = Code.GROUP_AUTHORIZATION_FAILED
TOPIC_DENIED = Code.TOPIC_AUTHORIZATION_FAILED


def streams_group_heartbeat_check(
    handle: Handle, broker: "Broker", request: Any, call: Call, caller: Requester
) -> Any:
    """READ on the group, DESCRIBE on every topic of the topology; for internal topics that are
    missing, CREATE on the cluster or on each of them."""
    from barnabas.coordinators.groups.replies import streams_refused
    from barnabas.coordinators.groups.streams.topology import topic_names

    if not caller.group(AclOperation.READ, request.group_id):
        return streams_refused(DENIED, DENIED.text)
    if request.topology is not None and not all(
        caller.topic(AclOperation.DESCRIBE, name) for name in topic_names(request.topology)
    ):
        return streams_refused(TOPIC_DENIED, TOPIC_DENIED.text)

    def may_create(name: str) -> bool:
        return caller.cluster(AclOperation.CREATE, quiet=True) or caller.topic(
            AclOperation.CREATE, name
        )

    return handle(
        broker,
        request,
        Call(call.version, call.connection, call.client_id, may_create=may_create),
    )


def streams_group_describe_check(
    handle: Handle, broker: "Broker", request: Any, call: Call, caller: Requester
) -> Any:
    from barnabas.broker.handlers.streams_group_describe import refused

    def topics(group: Any) -> Iterable[str]:
        parts = () if group.topology is None else group.topology.subtopologies or ()
        return (
            name
            for part in parts
            for name in (
                *part.source_topics,
                *part.repartition_sink_topics,
                *(topic.name for topic in part.repartition_source_topics),
                *(topic.name for topic in part.state_changelog_topics),
            )
        )

    return describe_check(handle, broker, request, call, caller, GroupDescription(topics, refused))
