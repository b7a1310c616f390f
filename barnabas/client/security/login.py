"""The login of one connection of a client; asyncio and blocking clients share it."""

from secrets import token_urlsafe

from barnabas.client.net import BrokerConnection
from barnabas.model.errors import Code, InvalidRequest
from barnabas.security.sasl.client_login import AuthenticationFailed, ClientLogin, SaslLogin
from barnabas.security.sasl.mechanism import LoginFailed
from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest

NONCE_BYTES = 24
_AUTHENTICATE = 36


async def log_in(connection: BrokerConnection, login: SaslLogin, timeout_ms: int) -> int:
    """For how many milliseconds the login is valid; 0: as long as the connection.

    AuthenticationFailed names the broker and the user; another attempt would not help.
    """
    try:
        connection.version_of(_AUTHENTICATE)
    except InvalidRequest:
        raise AuthenticationFailed(
            Code.UNSUPPORTED_VERSION,
            f"{connection.address}: the broker has no SaslAuthenticate: its listener does not use"
            " SASL, or it is older than Kafka 1.0",
        ) from None
    try:
        steps = ClientLogin(login, token_urlsafe(NONCE_BYTES))
        request: SaslHandshakeRequest | SaslAuthenticateRequest | None = steps.first()
        while request is not None:
            response = await connection.call(request, ProtocolMessage, timeout_ms=timeout_ms)
            request = steps.next(response)
    except AuthenticationFailed as failure:
        who = f" as {login.user!r}" if login.user else ""
        raise AuthenticationFailed(
            failure.code, f"{connection.address}: login{who} failed: {failure.detail}"
        ) from None
    except (LoginFailed, ValueError) as problem:
        raise AuthenticationFailed(
            Code.SASL_AUTHENTICATION_FAILED, f"{connection.address}: {problem}"
        ) from None
    return steps.lifetime_ms
