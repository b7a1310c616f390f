"""ApiVersions: what this broker speaks.

Always: exactly what dispatch.py has a handler for, our own APIs only to our own client; answered
before anything else is known of the client, so every version of the question gets an answer it
can read.
"""

import re
from functools import cache
from typing import TYPE_CHECKING

from barnabas.broker.dispatch import HANDLERS, Call
from barnabas.model.errors import Code, InvalidRequest
from barnabas.wire.apis import API_VERSIONS, APIS, PRIVATE_FROM
from barnabas.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

NAMED_SINCE = 3
NAME_LENGTH_MAX = 100
OWN_NAME = "barnabas"  # what our own client calls itself
_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?", re.ASCII)

# Tools tell a cluster's version by this feature; its bounds are those of Kafka 4.3. No other is
# finalized: transaction.version would make producers leave out AddPartitionsToTxn.
METADATA_VERSION = "metadata.version"
METADATA_VERSION_MIN = 7
METADATA_VERSION_MAX = 30


def handle(broker: "Broker", request: ApiVersionsRequest, call: Call) -> ApiVersionsResponse:
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
        return _spoken(own=name == OWN_NAME)
    return _spoken(own=False)


def unsupported() -> ApiVersionsResponse:
    """To a version we do not know: the versions of this one API, to ask again with."""
    return ApiVersionsResponse(
        error_code=Code.UNSUPPORTED_VERSION, api_keys=[_advertised(API_VERSIONS)]
    )


@cache
def _spoken(own: bool) -> ApiVersionsResponse:
    return ApiVersionsResponse(
        error_code=0,
        api_keys=[_advertised(key) for key in sorted(HANDLERS) if own or key < PRIVATE_FROM],
        supported_features=[
            SupportedFeatureKey(
                name=METADATA_VERSION,
                min_version=METADATA_VERSION_MIN,
                max_version=METADATA_VERSION_MAX,
            )
        ],
        finalized_features_epoch=0,
        finalized_features=[
            FinalizedFeatureKey(
                name=METADATA_VERSION,
                min_version_level=METADATA_VERSION_MAX,
                max_version_level=METADATA_VERSION_MAX,
            )
        ],
    )


def _advertised(key: int) -> ApiVersion:
    api = APIS[key]
    return ApiVersion(api_key=key, min_version=api.advertised_min, max_version=api.max_version)
