"""Requests about streams groups: members, their topologies and internal topics."""

from typing import TYPE_CHECKING, Any

from barnabas.broker.authorization.answers import Handle, after, changed
from barnabas.broker.authorization.requester import GROUP, Requester
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
    """A group with a topic that the client may not describe is refused as a whole."""
    from barnabas.broker.handlers.streams_group_describe import refused

    def seen(group: Any) -> Any:
        parts = () if group.topology is None else group.topology.subtopologies or ()
        names = dict.fromkeys(
            name
            for part in parts
            for name in (
                *part.source_topics,
                *part.repartition_sink_topics,
                *(topic.name for topic in part.repartition_source_topics),
                *(topic.name for topic in part.state_changelog_topics),
            )
        )
        if not all(caller.topic(AclOperation.DESCRIBE, name, named=False) for name in names):
            why = "the group has topics that the client may not describe"
            return refused(group.group_id, TOPIC_DENIED, why)
        if request.include_authorized_operations and not group.error_code:
            return changed(group, authorized_operations=caller.operations(GROUP, group.group_id))
        return group

    may = {
        group: caller.group(AclOperation.DESCRIBE, group)
        for group in dict.fromkeys(request.group_ids)
    }
    refusals = [refused(group, DENIED, None) for group in request.group_ids if not may[group]]
    allowed = [group for group in request.group_ids if may[group]]
    return after(
        handle(broker, changed(request, group_ids=allowed), call),
        lambda response: changed(response, groups=[*refusals, *map(seen, response.groups)]),
    )
