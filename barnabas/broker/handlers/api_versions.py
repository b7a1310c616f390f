"""ApiVersions: the APIs and versions that this broker supports.

Always: the APIs that net/dispatch.py has a handler for, except those between brokers; our own APIs
only for our own client. It is answered before anything is known about the client, so the reply to
every version of the request can be read by the client.
"""

import re
from functools import cache
from typing import TYPE_CHECKING

from barnabas.broker.net.dispatch import BETWEEN_BROKERS, HANDLERS, Call
from barnabas.model.errors import Code, InvalidRequest
from barnabas.model.features import FEATURES
from barnabas.wire.apis import API_VERSIONS, APIS, PRIVATE_FROM
from barnabas.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

if TYPE_CHECKING:
    from barnabas.broker.context import RefusalsContext

NAMED_SINCE = 3
NAME_LENGTH_MAX = 100
OWN_NAME = "barnabas"  # the name of our own client
_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?", re.ASCII)

FROM_ZERO_SINCE = 4  # clients before that cannot read a feature that begins at 0


def handle(
    broker: "RefusalsContext", request: ApiVersionsRequest, call: Call
) -> ApiVersionsResponse:
    if call.version >= NAMED_SINCE:
        name, version = request.client_software_name, request.client_software_version
        if not (_NAME.fullmatch(name) and _NAME.fullmatch(version)):
            detail = f"client software {name[:NAME_LENGTH_MAX]!r} {version[:NAME_LENGTH_MAX]!r}"
            broker.refused(
                "client refused",
                call,
                InvalidRequest(
                    Code.INVALID_REQUEST,
                    f"{detail}: only ASCII letters, digits, '-' and '.' are allowed",
                ),
            )
            return ApiVersionsResponse(error_code=Code.INVALID_REQUEST, api_keys=[])
        call.connection.client = f"{name[:NAME_LENGTH_MAX]} {version[:NAME_LENGTH_MAX]}"
        own, from_zero = name == OWN_NAME, call.version >= FROM_ZERO_SINCE
    else:
        own = from_zero = False
    return _spoken(own, from_zero)


def unsupported() -> ApiVersionsResponse:
    """For a version that we do not know: the versions of this one API, for a retry."""
    return ApiVersionsResponse(
        error_code=Code.UNSUPPORTED_VERSION, api_keys=[_advertised(API_VERSIONS)]
    )


@cache
def _spoken(own: bool, from_zero: bool) -> ApiVersionsResponse:
    return ApiVersionsResponse(
        error_code=0,
        api_keys=[
            _advertised(key)
            for key in sorted(HANDLERS)
            if key not in BETWEEN_BROKERS and (own or key < PRIVATE_FROM)
        ],
        supported_features=[
            SupportedFeatureKey(name=name, min_version=lowest, max_version=highest)
            for name, (lowest, highest) in FEATURES.items()
            if lowest or from_zero
        ],
        finalized_features_epoch=0,
        finalized_features=[
            FinalizedFeatureKey(name=name, min_version_level=highest, max_version_level=highest)
            for name, (_, highest) in FEATURES.items()
        ],
    )


def _advertised(key: int) -> ApiVersion:
    api = APIS[key]
    return ApiVersion(api_key=key, min_version=api.advertised_min, max_version=api.max_version)
