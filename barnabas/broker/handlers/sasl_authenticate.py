"""SaslAuthenticate outside of a login: on a listener without SASL, or after the login.

Not here: logins (broker/security/authentication.py).
"""

from typing import TYPE_CHECKING

from barnabas.broker.net.dispatch import Call
from barnabas.model.errors import Code
from barnabas.wire.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.context import RefusalsContext


def handle(
    broker: "RefusalsContext", request: SaslAuthenticateRequest, call: Call
) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_code=Code.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate is sent during a login only, after SaslHandshake",
        auth_bytes=b"",
    )
