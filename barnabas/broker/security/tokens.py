"""Delegation tokens of a broker: where they are kept, who may ask for them, and their credentials.

In: requests about tokens. Out: changes in the keeper that reach every broker; credentials of SCRAM.
Always: a client that has not logged in, or has logged in with a token, gets no token.
Not here: the rules of times and owners (security/sasl/delegation_tokens.py).
"""

from typing import TYPE_CHECKING

from barnabas.broker.net.dispatch import Call
from barnabas.keeper.keeper import Create, Delete, Keeper, Operation, Set, ensure
from barnabas.keeper.paths import (
    CONFIG_CHANGE,
    TOKEN_CONFIGS,
    TOKENS,
    config_change_data,
    config_data,
    entity_config,
)
from barnabas.model.errors import Code, InvalidRequest
from barnabas.security.principal import ANONYMOUS, Principal
from barnabas.security.sasl.credentials import (
    ITERATIONS_MIN,
    SALT_LENGTH,
    ScramHash,
    credential,
)
from barnabas.security.sasl.delegation_tokens import (
    DelegationToken,
    TokenLimits,
    read_token,
    token_hmac,
    token_password,
    token_settings,
)
from barnabas.security.sasl.login import SaslSession
from barnabas.security.sasl.mechanism import SaslIdentity
from barnabas.security.sasl.scram_server import FoundCredential

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

TOKENS_MAX = 5_000
CREDENTIALS_MAX = 1_000  # in memory: each costs a millisecond to compute


class TokenCredentials:
    """Credentials of SCRAM for tokens, computed when a token is first used."""

    def __init__(self, broker: "Broker", secret: str) -> None:
        self._broker = broker
        self._secret = secret
        self._known: dict[tuple[str, str], FoundCredential] = {}

    def find(self, hash_: ScramHash, id_: str) -> FoundCredential | None:
        """None: there is no such token, or it is over."""
        token = read_token(id_, self._broker.catalog.entities.get((TOKENS, id_), {}))
        if token is None or token.is_over(self._broker.clock.wall_ms()):
            return None
        identity = SaslIdentity(token.owner.name, min(token.expires_ms, token.max_ms), True)
        known = self._known.get((hash_.mechanism, id_))
        if known is None:
            hmac = token_hmac(self._secret, id_)
            salt = token_hmac(self._secret, f"salt {id_}")[:SALT_LENGTH]
            stored = credential(hash_, token_password(hmac), salt, ITERATIONS_MIN)
            if len(self._known) >= CREDENTIALS_MAX:
                self._known.pop(next(iter(self._known)))
            known = self._known[hash_.mechanism, id_] = FoundCredential(stored, identity)
        return known._replace(identity=identity)


def secret_of(broker: "Broker") -> str:
    """DELEGATION_TOKEN_AUTH_DISABLED if there is none."""
    secret = broker.config.delegation_token_secret_key
    if not secret:
        raise InvalidRequest(
            Code.DELEGATION_TOKEN_AUTH_DISABLED, "delegation.token.secret.key is not set"
        )
    return secret


def limits_of(broker: "Broker") -> TokenLimits:
    config = broker.config
    return TokenLimits(
        config.delegation_token_max_lifetime_ms, config.delegation_token_expiry_time_ms
    )


def requester_of(call: Call) -> Principal:
    """Who asks, over a connection on which tokens may be asked for."""
    connection = call.connection
    principal: Principal = connection.principal
    session = connection.login
    by_token = isinstance(session, SaslSession) and session.identity.by_token
    if principal == ANONYMOUS or by_token:
        raise InvalidRequest(Code.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    return principal


def tokens_of(broker: "Broker") -> dict[str, DelegationToken]:
    return {
        id_: token
        for (kind, id_), settings in list(broker.catalog.entities.items())
        if kind == TOKENS and (token := read_token(id_, settings)) is not None
    }


async def store(broker: "Broker", id_: str, token: DelegationToken | None) -> None:
    """On every broker, when this returns; None deletes the token."""
    settings = {} if token is None else token_settings(token)
    if broker.cluster is None:
        await broker.catalog.configure_entity(TOKENS, id_, lambda _: settings)
        return
    await broker.cluster.run(lambda keeper: _write(keeper, id_, settings))
    await broker.cluster.forwarding.settings.apply_everywhere()


async def forget_ended(broker: "Broker") -> None:
    """Tokens that are over; the number of the others is bounded."""
    now_ms, left = broker.clock.wall_ms(), 0
    for id_, token in tokens_of(broker).items():
        if token.is_over(now_ms):
            await store(broker, id_, None)
        else:
            left += 1
    if left >= TOKENS_MAX:
        raise InvalidRequest(
            Code.POLICY_VIOLATION, f"there are {left} delegation tokens: expire some of them"
        )


def _write(keeper: Keeper, id_: str, settings: dict[str, str]) -> None:
    ensure(keeper, TOKEN_CONFIGS)
    path = entity_config(TOKENS, id_)
    note = Create(CONFIG_CHANGE, config_change_data(path.removeprefix("/config/")), sequential=True)
    there = keeper.exists(path)
    change: Operation
    if not settings:
        if not there:
            return
        change = Delete(path)
    else:
        change = Set(path, config_data(settings)) if there else Create(path, config_data(settings))
    keeper.multi([change, note])
