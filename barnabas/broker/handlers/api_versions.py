"""ApiVersions: what this broker speaks."""

from functools import cache
from typing import TYPE_CHECKING

from barnabas.broker.dispatch import HANDLERS, Call
from barnabas.model.errors import Code
from barnabas.wire.apis import API_VERSIONS, APIS
from barnabas.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker


def handle(broker: "Broker", request: ApiVersionsRequest, call: Call) -> ApiVersionsResponse:
    return _supported()


def unsupported() -> ApiVersionsResponse:
    api = APIS[API_VERSIONS]
    return ApiVersionsResponse(
        error_code=Code.UNSUPPORTED_VERSION,
        api_keys=[
            ApiVersion(api_key=api.key, min_version=api.min_version, max_version=api.max_version)
        ],
    )


@cache
def _supported() -> ApiVersionsResponse:
    return ApiVersionsResponse(
        error_code=Code.NONE,
        api_keys=[
            ApiVersion(
                api_key=key,
                min_version=APIS[key].advertised_min,
                max_version=APIS[key].max_version,
            )
            for key in sorted(HANDLERS)
        ],
    )
