"""All logins of a broker: the mechanisms and users of each listener with SASL.

In: options, the keeper's secret, users of the keeper. Out: for each such listener its
`Authentication`; with what this broker logs in to others.
Always: a broker whose options would accept every client, or none, does not start.
"""

from collections.abc import Awaitable, Callable
from secrets import token_bytes
from typing import TYPE_CHECKING

from barnabas.broker.net.connection import Connection
from barnabas.broker.net.listener_context import ListenerContext
from barnabas.broker.security.authentication import Authentication
from barnabas.broker.security.credentials import ScramUsers, load_secret
from barnabas.broker.security.jwks import Jwks, token_validation
from barnabas.broker.security.mechanisms import MechanismOptions, enabled_mechanisms
from barnabas.config import broker as broker_options
from barnabas.config.broker import BrokerConfig
from barnabas.config.broker_listeners import ListenerSettings, SecurityProtocol, is_loopback
from barnabas.config.listener_options import settings_of
from barnabas.config.option import invalid
from barnabas.keeper.keeper import Keeper
from barnabas.security.sasl.client_login import SaslLogin
from barnabas.security.sasl.jaas import PLAIN_MODULE, SCRAM_MODULE, JaasLogin, parse_jaas
from barnabas.security.sasl.mechanism import OAUTHBEARER, PLAIN

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker
    from barnabas.broker.cluster.peers import Peers
    from barnabas.broker.security.tokens import TokenCredentials

Ask = Callable[[Callable[[Keeper], bytes]], Awaitable[bytes]]
"""Runs a call in the keeper's thread."""

SECRET_LENGTH = 32
LOGGED_EVERY_S = 3_600.0
LOGGED_MAX = 1_000
_JAAS = "sasl.jaas.config"


def read_login_secret(keeper: Keeper) -> bytes:
    return load_secret(keeper, token_bytes(SECRET_LENGTH))


class Logins:
    """Created before the listeners are opened, if one of them has a login."""

    def __init__(self, broker: "Broker", secret: bytes) -> None:
        self._broker = broker
        self.users = ScramUsers(lambda: broker.catalog.entities, secret, broker.log)
        self._listeners: list[Authentication] = []
        self._keys: list[Jwks] = []
        self._logged_at: dict[tuple[str, str, str], float] = {}  # the oldest first
        self._tokens: TokenCredentials | None = None
        token_secret = broker.config.delegation_token_secret_key
        if token_secret:
            from barnabas.broker.security import tokens

            self._tokens = tokens.TokenCredentials(broker, token_secret)

    def listener(self, settings: ListenerSettings, normal: ListenerContext) -> Authentication:
        """The logins of one listener."""
        options = self._options(settings)
        _check_exposed(self._broker, settings, options.enabled)
        size_max = options.of("sasl.server.max.receive.size", "")
        assert isinstance(size_max, int)
        made = Authentication(
            self._broker,
            normal,
            enabled_mechanisms(
                options, self.users, token_validation(self._broker, self._keys), self._tokens
            ),
            size_max,
            self._broker.config.connection_failed_authentication_delay_ms,
        )
        self._listeners.append(made)
        return made

    def _options(self, settings: ListenerSettings) -> MechanismOptions:
        def of(name: str, mechanism: str) -> object:
            return option_of(self._broker, settings.name, mechanism, name)

        enabled = of("sasl.enabled.mechanisms", "")
        assert isinstance(enabled, tuple)
        return MechanismOptions(settings.name, of, enabled)

    def succeeded(self, connection: Connection, mechanism: str) -> None:
        """One line per user, host and mechanism in an hour: clients open many connections."""
        now_s = self._broker.loop.time()
        key = (str(connection.principal), connection.host, mechanism)
        if now_s - self._logged_at.get(key, -LOGGED_EVERY_S) < LOGGED_EVERY_S:
            return
        self._logged_at.pop(key, None)
        if len(self._logged_at) >= LOGGED_MAX:
            self._logged_at.pop(next(iter(self._logged_at)))
        self._logged_at[key] = now_s
        self._broker.log.info(
            "logged in",
            principal=key[0],
            peer=connection.peer,
            client=connection.client_id,
            listener=connection.listener,
            mechanism=mechanism,
        )

    def close(self) -> None:
        for listener in self._listeners:
            listener.close()
        for keys in self._keys:
            keys.close()


async def join_logins(broker: "Broker", peers: "Peers", ask: Ask) -> None:
    """In a cluster, where a login between brokers may be needed too."""
    broker.logins = Logins(broker, await ask(read_login_secret))
    peers.login = inter_broker_login(broker)


def option_of(broker: "Broker", listener: str, mechanism: str, name: str) -> object:
    """The value of an option for one mechanism of a listener, or for the listener, or for all."""
    option = broker_options.OPTIONS[name]
    for found in (
        settings_of(broker.layers, listener, mechanism) if mechanism else {},
        settings_of(broker.layers, listener),
    ):
        if name in found:
            return option.parse(found[name])
    return _for_all_listeners(broker.config)[name]


def _for_all_listeners(config: BrokerConfig) -> dict[str, object]:
    """Without a prefix: sasl.jaas.config is ignored then, as by Kafka."""
    return {
        "sasl.oauthbearer.jwks.endpoint.url": config.sasl_oauthbearer_jwks_endpoint_url,
        "sasl.oauthbearer.expected.issuer": config.sasl_oauthbearer_expected_issuer,
        "sasl.oauthbearer.expected.audience": config.sasl_oauthbearer_expected_audience,
        "connections.max.reauth.ms": config.connections_max_reauth_ms,
        "sasl.enabled.mechanisms": config.sasl_enabled_mechanisms,
        "sasl.server.max.receive.size": config.sasl_server_max_receive_size,
        _JAAS: None,
    }


def inter_broker_login(broker: "Broker") -> SaslLogin | None:
    """With what this broker logs in to others; None: the listener between brokers has no login."""
    (settings,) = (each for each in broker.config.listener_settings if each.between_brokers)
    if not settings.protocol.has_login:
        return None
    mechanism = broker.config.sasl_mechanism_inter_broker_protocol
    enabled = option_of(broker, settings.name, "", "sasl.enabled.mechanisms")
    assert isinstance(enabled, tuple)
    if mechanism not in enabled:
        raise invalid(
            f"broker option sasl.mechanism.inter.broker.protocol: {mechanism} is not in"
            f" sasl.enabled.mechanisms of listener {settings.name}"
        )
    if mechanism == OAUTHBEARER:
        raise invalid(
            "broker option sasl.mechanism.inter.broker.protocol: brokers log in to each other with"
            " SCRAM or PLAIN, not with OAUTHBEARER"
        )
    where = f"listener.name.{settings.name.lower()}.{mechanism.lower()}.{_JAAS}"
    text = option_of(broker, settings.name, mechanism, _JAAS)
    module = PLAIN_MODULE if mechanism == PLAIN else SCRAM_MODULE
    found = _parsed(where, text) if isinstance(text, str) else JaasLogin(module, {})
    user, password = found.options.get("username"), found.options.get("password")
    if found.module != module or not user or not password:
        raise invalid(
            f"brokers log in to each other with {mechanism}: set {where} to"
            f' {module} required username="..." password="...";'
        )
    return SaslLogin(mechanism, user, password)


def _parsed(where: str, text: str) -> JaasLogin:
    try:
        return parse_jaas(text)
    except ValueError as problem:
        raise invalid(f"broker option {where}: {problem}") from None


def _check_exposed(broker: "Broker", settings: ListenerSettings, enabled: tuple[str, ...]) -> None:
    """Mechanisms that send a secret as it is need TLS, except on this machine."""
    open_ = [each for each in (PLAIN, OAUTHBEARER) if each in enabled]
    plain = settings.protocol is SecurityProtocol.SASL_PLAINTEXT
    allowed = is_loopback(settings.host) or broker.config.listeners_insecure_allow
    if open_ and plain and not allowed:
        raise invalid(
            f"listener {settings.name}: {' and '.join(open_)} would send passwords or tokens over"
            " the network without encryption: use SASL_SSL, or SCRAM, or listen on 127.0.0.1, or"
            " accept it with --insecure"
        )
