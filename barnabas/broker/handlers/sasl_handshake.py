"""SaslHandshake outside of a login: on a listener without SASL, or after the login.

Not here: logins (broker/security/authentication.py).
"""

from typing import TYPE_CHECKING

from barnabas.broker.net.dispatch import Call
from barnabas.model.errors import Code
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from barnabas.broker.context import RefusalsContext


def handle(
    broker: "RefusalsContext", request: SaslHandshakeRequest, call: Call
) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=Code.ILLEGAL_SASL_STATE, mechanisms=[])
