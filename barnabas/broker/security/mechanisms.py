"""The mechanisms that the clients of a listener may use, made from its options.

In: options, users of the keeper. Out: the enabled mechanisms by name, or INVALID_CONFIG.
"""

from collections.abc import Callable, Mapping
from functools import partial
from secrets import token_urlsafe
from typing import TYPE_CHECKING

from barnabas.broker.security.credentials import ScramUsers
from barnabas.config.option import invalid
from barnabas.security.sasl.credentials import HASHES, ScramHash
from barnabas.security.sasl.jaas import PLAIN_MODULE, parse_jaas
from barnabas.security.sasl.login import EnabledMechanism
from barnabas.security.sasl.mechanism import MECHANISMS, OAUTHBEARER, PLAIN
from barnabas.security.sasl.oauthbearer import OAuthBearerServer, ValidateToken
from barnabas.security.sasl.plain import Passwords, PlainServer, password_check
from barnabas.security.sasl.scram_server import FoundCredential, ScramServer

if TYPE_CHECKING:
    from barnabas.broker.security.tokens import TokenCredentials

NONCE_BYTES = 24


class MechanismOptions:
    """The options of one listener about SASL. `of(NAME, mechanism)` is the value in force, where
    an option with the prefix of listener and mechanism comes first."""

    def __init__(
        self, listener: str, of: Callable[[str, str], object], enabled: tuple[str, ...]
    ) -> None:
        self.listener = listener
        self.of = of
        self.enabled = enabled


def enabled_mechanisms(
    options: MechanismOptions,
    users: ScramUsers,
    validate: Callable[[MechanismOptions], ValidateToken],
    tokens: "TokenCredentials | None" = None,
) -> dict[str, EnabledMechanism]:
    """`validate` makes the check of tokens for OAUTHBEARER. `tokens`: delegation tokens."""
    if not options.enabled:
        raise invalid(
            f"listener {options.listener}: sasl.enabled.mechanisms is empty: name at least one of"
            f" {', '.join(MECHANISMS)}"
        )
    mechanisms = {}
    for mechanism in options.enabled:
        limit = options.of("connections.max.reauth.ms", mechanism)
        assert isinstance(limit, int)
        begin: Callable[[], PlainServer | ScramServer | OAuthBearerServer]
        if mechanism == PLAIN:
            begin = partial(PlainServer, _plain_users(options))
        elif mechanism == OAUTHBEARER:
            begin = partial(OAuthBearerServer, validate(options))
        else:
            begin = partial(_scram, HASHES[mechanism], users, tokens)
        mechanisms[mechanism] = EnabledMechanism(begin, limit)
    return mechanisms


def _scram(hash_: ScramHash, users: ScramUsers, tokens: "TokenCredentials | None") -> ScramServer:
    def find(user: str, by_token: bool) -> FoundCredential:
        if not by_token:
            return users.find(hash_, user)
        found = tokens.find(hash_, user) if tokens is not None else None
        # An unknown token is like a user that does not exist.
        return found or users.find(hash_, f"token\0{user}")

    return ScramServer(hash_, token_urlsafe(NONCE_BYTES), find)


def _plain_users(options: MechanismOptions) -> Passwords:
    users = jaas_options(options, PLAIN, PLAIN_MODULE)
    if not users:
        name = f"listener.name.{options.listener.lower()}.plain.sasl.jaas.config"
        raise invalid(
            f"listener {options.listener}: PLAIN is enabled, but there are no users: set {name} to"
            f' {PLAIN_MODULE} required user_NAME="PASSWORD";'
        )
    return password_check(users)


def jaas_options(options: MechanismOptions, mechanism: str, module: str) -> Mapping[str, str]:
    """The users in sasl.jaas.config of a mechanism."""
    text = options.of("sasl.jaas.config", mechanism)
    if not isinstance(text, str) or not text:
        return {}
    where = f"listener.name.{options.listener.lower()}.{mechanism.lower()}.sasl.jaas.config"
    try:
        login = parse_jaas(text)
    except ValueError as problem:
        raise invalid(f"broker option {where}: {problem}") from None
    if login.module != module:
        raise invalid(f"broker option {where}: expected {module}, not {login.module[:100]}")
    return login.users
