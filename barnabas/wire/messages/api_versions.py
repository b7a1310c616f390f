"""ApiVersions: the supported versions of each API."""

from barnabas.wire.codec import Int16, Int32, Int64, ProtocolMessage, Struct, message, since, tagged


@message(api_key=18, versions="0-4", flexible="3+")
class ApiVersionsRequest(ProtocolMessage):
    """Requests the versions that the broker supports.

    v3: flexible, says what software the client is. v4: as v3.
    """

    client_software_name: str = since(3, default="", ignorable=True)
    client_software_version: str = since(3, default="", ignorable=True)


class ApiVersion(Struct):
    api_key: Int16
    min_version: Int16
    max_version: Int16


class SupportedFeatureKey(Struct):
    name: str
    min_version: Int16
    max_version: Int16


class FinalizedFeatureKey(Struct):
    name: str
    max_version_level: Int16
    min_version_level: Int16


@message(api_key=18, versions="0-4", flexible="3+")
class ApiVersionsResponse(ProtocolMessage):
    """The versions of each API.

    v1: throttle time. v3: flexible, features. v4: features whose minimum is 0.
    """

    error_code: Int16
    api_keys: list[ApiVersion]
    throttle_time_ms: Int32 = since(1, default=0, ignorable=True)
    supported_features: list[SupportedFeatureKey] = tagged(0, since=3, default=[], ignorable=True)
    finalized_features_epoch: Int64 = tagged(1, since=3, default=-1, ignorable=True)
    finalized_features: list[FinalizedFeatureKey] = tagged(2, since=3, default=[], ignorable=True)
    zk_migration_ready: bool = tagged(3, since=3, default=False, ignorable=True)
