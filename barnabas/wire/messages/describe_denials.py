"""DescribeDenials: the last requests that access rules denied, for people who ask why.

An API of Barnabas for its own client (docs/adr/0010).
"""

from barnabas.wire.codec import Int8, Int16, Int32, Int64, ProtocolMessage, Struct, message


@message(api_key=20_007, versions="0-0", flexible="0+")
class DescribeDenialsRequest(ProtocolMessage):
    """Each broker reports its own. Who may not describe the cluster sees only its own denials."""

    denials_max: Int32 = 1000


class DescribedDenial(Struct):
    """`rule` is the rule that denied it, as text; empty: no rule allowed it, or the client may not
    see rules. `named`: the client gave the name, not an id."""

    at_ms: Int64
    principal: str
    host: str
    operation: Int8
    resource_type: Int8
    resource_name: str
    api: str
    client_id: str
    rule: str
    named: bool


@message(api_key=20_007, versions="0-0", flexible="0+")
class DescribeDenialsResponse(ProtocolMessage):
    """The newest first. SECURITY_DISABLED: the broker has no authorizer."""

    error_code: Int16
    count: Int64 = 0
    denials: list[DescribedDenial]
