"""The client's side of a login: the requests, one after another.

In: the replies of the broker. Out: the next request, or the end.
Always: the login succeeds only if the mechanism is satisfied: a broker that skips its proof is
refused. Passwords are in no error, and in no `repr`.
Not here: connections (client/, broker/cluster/peers.py).
"""

from collections.abc import Callable
from typing import NamedTuple

from barnabas.model.errors import Code, Failed, KafkaError
from barnabas.security.sasl.credentials import HASHES
from barnabas.security.sasl.mechanism import OAUTHBEARER, PLAIN, ClientExchange, LoginFailed
from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

TOKENS_MAX = 8  # the longest mechanism has two


class AuthenticationFailed(Failed):
    """The broker refused the login, or is not the one that knows the password: do not retry."""


class SaslLogin(NamedTuple):
    """With what a client logs in. `token`: of OAUTHBEARER, asked for at each login."""

    mechanism: str
    user: str = ""
    password: str = ""
    by_token: bool = False
    token: Callable[[], str] | None = None

    def __repr__(self) -> str:
        return f"SaslLogin({self.mechanism!r}, user={self.user!r})"

    def begin(self, nonce: str) -> ClientExchange:
        """A new exchange. `nonce`: new and random, of printable ASCII without commas."""
        if self.mechanism == PLAIN:
            from barnabas.security.sasl.plain import PlainClient

            return PlainClient(self.user, self.password)
        if self.mechanism == OAUTHBEARER:
            from barnabas.security.sasl.oauthbearer import OAuthBearerClient

            assert self.token is not None
            return OAuthBearerClient(self.token())
        from barnabas.security.sasl.scram_client import ScramClient

        return ScramClient(HASHES[self.mechanism], self.user, self.password, nonce, self.by_token)


class ClientLogin:
    """One login on one connection: `first`, then `next` with each response."""

    def __init__(self, login: SaslLogin, nonce: str) -> None:
        self.mechanism = login.mechanism
        self._exchange = login.begin(nonce)
        self._tokens = 0
        self.lifetime_ms = 0
        """After the login: for how long it is valid; 0: as long as the connection."""

    def first(self) -> SaslHandshakeRequest:
        return SaslHandshakeRequest(mechanism=self.mechanism)

    def next(self, response: ProtocolMessage) -> SaslAuthenticateRequest | None:
        """None: logged in."""
        if isinstance(response, SaslHandshakeResponse):
            if response.error_code:
                raise self._refused_mechanism(response)
            return SaslAuthenticateRequest(auth_bytes=self._exchange.first())
        assert isinstance(response, SaslAuthenticateResponse)
        if response.error_code:
            code = Code.of(response.error_code)
            raise AuthenticationFailed(code, response.error_message or code.text)
        self._tokens += 1
        try:
            if self._tokens > TOKENS_MAX:
                raise LoginFailed("the broker asks for more tokens than any mechanism has")
            reply = None
            if not self._exchange.done:
                reply = self._exchange.respond(bytes(response.auth_bytes))
        except LoginFailed as failure:
            raise AuthenticationFailed(
                Code.SASL_AUTHENTICATION_FAILED, f"{self.mechanism}: {failure}"
            ) from None
        if reply is not None:
            return SaslAuthenticateRequest(auth_bytes=reply)
        self.lifetime_ms = response.session_lifetime_ms
        return None

    def _refused_mechanism(self, response: SaslHandshakeResponse) -> KafkaError:
        code = Code.of(response.error_code)
        if code is Code.UNSUPPORTED_SASL_MECHANISM:
            offered = ", ".join(response.mechanisms) or "none"
            return AuthenticationFailed(
                code, f"the broker does not offer {self.mechanism}; it offers {offered}"
            )
        if code is Code.ILLEGAL_SASL_STATE:
            return AuthenticationFailed(
                code, "the broker's listener does not use SASL: set security.protocol without SASL"
            )
        return AuthenticationFailed(code, code.text)
