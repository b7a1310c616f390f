"""Broker options about listeners: their names, addresses and security protocols.

In: `listeners`, `advertised.listeners`, `listener.security.protocol.map`, and which listener
brokers use among themselves. Out: one `ListenerSettings` per listener.
Always: each listener has a protocol; clients never get an address that they cannot connect to;
a name that is no protocol must be in the map, so that a typing error does not turn TLS into plain
text.
Not here: options of one listener (`listener.name.NAME.OPTION`): listener_options.py.
"""

from enum import IntEnum
from typing import NamedTuple

from barnabas.config.kinds import (
    Address,
    Bool,
    ConfigType,
    Enum,
    Kind,
    ListenerAddress,
    Listeners,
    Text,
)
from barnabas.config.option import Option, Scope, invalid
from barnabas.config.resolve import Config

EVERY_INTERFACE = ("", "0.0.0.0", "::")


class SecurityProtocol(IntEnum):
    """As Kafka numbers them."""

    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3

    @property
    def encrypted(self) -> bool:
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def has_login(self) -> bool:
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


class ListenerSettings(NamedTuple):
    """One listener, as configured."""

    name: str
    protocol: SecurityProtocol
    host: str
    port: int
    advertised: Address | None = None
    """The address given to clients; None: the listener's own address."""
    is_advertised: bool = True
    """False: advertised.listeners is set, and leaves this listener out."""
    between_brokers: bool = False


class ProtocolMap(Kind[tuple[tuple[str, SecurityProtocol], ...]]):
    """NAME:PROTOCOL between commas."""

    __slots__ = ()
    type = ConfigType.STRING

    def parse(self, text: str) -> tuple[tuple[str, SecurityProtocol], ...]:
        found: dict[str, SecurityProtocol] = {}
        for part in text.split(",") if text.strip() else ():
            name, colon, protocol = (each.strip().upper() for each in part.rpartition(":"))
            if not colon or not name or protocol not in SecurityProtocol.__members__:
                raise ValueError(f"expected {self.bounds()}, not {part.strip()[:100]!r}")
            if name in found:
                raise ValueError(f"expected {self.bounds()}, but {name} occurs twice")
            found[name] = SecurityProtocol[protocol]
        return tuple(found.items())

    def format(self, value: tuple[tuple[str, SecurityProtocol], ...]) -> str:
        return ",".join(f"{name}:{protocol.name}" for name, protocol in value)

    def bounds(self) -> str:
        return f"NAME:PROTOCOL between commas, of {', '.join(SecurityProtocol.__members__)}"


_BY_NAME = tuple(
    (each.name, each)
    for each in (  # in Kafka's order, which DescribeConfigs shows
        SecurityProtocol.SASL_SSL,
        SecurityProtocol.PLAINTEXT,
        SecurityProtocol.SSL,
        SecurityProtocol.SASL_PLAINTEXT,
    )
)


class ListenerOptions(Config):
    """Where a broker listens."""

    listeners = Option[tuple[ListenerAddress, ...]](
        name="listeners",
        kind=Listeners(),
        default=(ListenerAddress("PLAINTEXT", "", 9092),),
        scope=Scope.BROKER,
        needs_restart=True,
        doc="The addresses that the broker listens on, each with a name of its own. The name is a "
        "security protocol, or is in listener.security.protocol.map. Port 0 picks a free port.",
    )
    advertised_listeners = Option[tuple[ListenerAddress, ...] | None](
        name="advertised.listeners",
        kind=Listeners(),
        default=None,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="The addresses given to clients, by the names of listeners; unset: those of listeners. "
        "A client gets the addresses of the listener that it is connected to.",
    )
    listener_security_protocol_map = Option[tuple[tuple[str, SecurityProtocol], ...]](
        name="listener.security.protocol.map",
        kind=ProtocolMap(),
        default=_BY_NAME,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="The security protocol of each listener.",
    )
    inter_broker_listener_name = Option[str | None](
        name="inter.broker.listener.name",
        kind=Text(),
        default=None,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="The listener for connections between brokers; unset: the one named in "
        "security.inter.broker.protocol, or PLAINTEXT, or else the first listener.",
    )
    security_inter_broker_protocol = Option[str | None](
        name="security.inter.broker.protocol",
        kind=Enum(*SecurityProtocol.__members__),
        default=None,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="The listener between brokers, named by its protocol. Not together with "
        "inter.broker.listener.name.",
    )
    listeners_insecure_allow = Option[bool](
        name="listeners.insecure.allow",
        kind=Bool(),
        default=False,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="Accept a PLAINTEXT listener that other machines can reach; `barnabas up --insecure` "
        "sets it.",
    )

    @property
    def listener_settings(self) -> tuple[ListenerSettings, ...]:
        protocols = dict(self.listener_security_protocol_map)
        advertised = self.advertised_listeners
        addresses = {each.name: Address(each.host, each.port) for each in advertised or ()}
        between = self.between_brokers
        return tuple(
            ListenerSettings(
                each.name,
                protocols[each.name],
                each.host,
                each.port,
                addresses.get(each.name),
                advertised is None or each.name in addresses,
                each.name == between,
            )
            for each in self.listeners
        )

    @property
    def has_logins(self) -> bool:
        """Whether clients of a listener must log in."""
        return any(each.protocol.has_login for each in self.listener_settings)

    @property
    def between_brokers(self) -> str:
        """The name of the listener that brokers use among themselves."""
        name = self.inter_broker_listener_name or self.security_inter_broker_protocol
        if name is not None:
            return name.strip().upper()
        names = [each.name for each in self.listeners]
        return "PLAINTEXT" if "PLAINTEXT" in names else names[0]

    @property
    def exposed_listeners(self) -> list[ListenerSettings]:
        """Those that other machines can use without a login, if that is not allowed."""
        if self.listeners_insecure_allow:
            return []
        return [
            each
            for each in self.listener_settings
            if each.protocol is SecurityProtocol.PLAINTEXT and not is_loopback(each.host)
        ]

    def check_listeners(self) -> None:
        """INVALID_CONFIG unless the options about listeners fit together."""
        protocols = dict(self.listener_security_protocol_map)
        names = {each.name for each in self.listeners}
        for name in names:
            if name not in protocols:
                raise invalid(
                    f"broker option listeners: listener {name} has no security protocol: add"
                    f" {name}:SSL, or another protocol, to listener.security.protocol.map"
                )
        advertised = names
        if self.advertised_listeners is not None:
            advertised = {each.name for each in self.advertised_listeners}
            self._check_advertised(names)
        if self.inter_broker_listener_name and self.security_inter_broker_protocol:
            raise invalid(
                "broker options inter.broker.listener.name and security.inter.broker.protocol"
                " exclude each other: set one of them"
            )
        if self.between_brokers not in advertised:
            raise invalid(
                f"broker option inter.broker.listener.name: {self.between_brokers} is not the name"
                f" of an advertised listener; there are {', '.join(sorted(advertised))}"
            )

    def _check_advertised(self, names: set[str]) -> None:
        for each in self.advertised_listeners or ():
            if each.host in EVERY_INTERFACE:
                raise invalid(
                    f"broker option advertised.listeners: clients cannot connect to {each}: "
                    "name a host they can reach"
                )
            if each.name not in names:
                raise invalid(
                    f"broker option advertised.listeners: {each.name} is not the name of a"
                    f" listener; there are {', '.join(sorted(names))}"
                )


def is_loopback(host: str) -> bool:
    """Whether only programs of this machine can connect to a listener on this host."""
    return host in ("localhost", "::1") or host.startswith("127.")


def check_exposure(config: ListenerOptions) -> None:
    """INVALID_CONFIG for a listener that anyone on the network could use, unless it is allowed."""
    for each in config.exposed_listeners:
        at = f"{each.name}://{Address(each.host, each.port)}"
        raise invalid(
            f"listener {at}: every machine that reaches this address could read, write and"
            " delete all records: PLAINTEXT has no encryption and no login. Listen on"
            " 127.0.0.1, use SSL or SASL_SSL (docs/SECURITY.md), or accept it with --insecure"
        )
