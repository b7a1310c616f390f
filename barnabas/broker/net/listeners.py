"""The listeners of a broker: opened, advertised, and their connections within the limits.

In: the options about listeners, accepted streams. Out: connections, each with its listener's
context; the addresses that clients of each listener are given.
Always: the connections of all listeners share turns, memory and limits.
Not here: what a connection does (connection.py), TLS (broker/security/tls_listener.py), logins
(broker/security/logins.py).
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from barnabas.broker.net.connection import Connection
from barnabas.broker.net.listener_context import ListenerContext, host_of
from barnabas.config.broker import BrokerConfig
from barnabas.config.broker_listeners import (
    EVERY_INTERFACE,
    ListenerSettings,
    SecurityProtocol,
)
from barnabas.config.kinds import INT_MAX, Address, ListenerAddress
from barnabas.config.listener_options import settings_of
from barnabas.model.ports import Listening, Network, Stream
from barnabas.security.principal import ANONYMOUS, Principal

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from barnabas.broker.broker import Broker
    from barnabas.broker.security.authentication import Authentication
    from barnabas.broker.security.connection_rates import ConnectionRates
    from barnabas.broker.security.tls_listener import TlsListener
    from barnabas.security.quotas.usage import UsageRate

Accepted = Callable[[Stream], None]
Connect = Callable[[Stream, Principal], object]


class ListenerRate:
    """How many connections may be created on a listener in a second, and how many were.

    `is_counted`: on the broker, too. Not if brokers have a listener for themselves."""

    __slots__ = ("is_counted", "limit", "listening", "rate")

    def __init__(self, limit: int, *, is_counted: bool) -> None:
        self.limit = limit
        self.is_counted = is_counted
        self.listening: Listening | None = None
        self.rate: UsageRate | None = None


class OpenListeners:
    """Created with the broker; `open` opens them, `close` closes them."""

    def __init__(
        self,
        broker: "Broker",
        network: Network,
        context: ListenerContext,
        host_name: Callable[[], str],
    ) -> None:
        self._broker = broker
        self._network = network
        self._host_name = host_name  # asked only if needed: the answer may take a while
        self._listening: list[Listening] = []
        self._by_host: dict[str, int] = {}
        self._handshaking = 0  # accepted, and not connections yet
        self._tls: dict[str, TlsListener] = {}
        self._handshakes: ThreadPoolExecutor | None = None
        self._rates: ConnectionRates | None = None
        self.contexts = [context]
        self.protocols: dict[str, SecurityProtocol] = {}
        self.advertised: dict[str, Address] = {}
        """By the names of listeners; the one between brokers first."""
        self.addresses: tuple[ListenerAddress, ...] = ()
        """Where the broker listens, with the actual ports."""

    def open(self) -> None:
        settings = sorted(
            self._broker.config.listener_settings, key=lambda each: not each.between_brokers
        )
        opened = {each.name: self._open(each) for each in settings}
        for each in settings:
            self.protocols[each.name] = each.protocol
            if each.is_advertised:
                self.advertised[each.name] = self._address(each, opened[each.name])
        self.addresses = tuple(
            each._replace(port=each.port or opened[each.name].port)
            for each in self._broker.config.listeners
        )

    def _open(self, settings: ListenerSettings) -> Listening:
        if settings.between_brokers:
            context = self.contexts[0]
            context.listener_name = settings.name
        else:
            context = self.contexts[0].for_listener(settings.name)
            context.now_ms = self.contexts[0].now_ms
            self.contexts.append(context)
        rate = self._rate_of(settings)
        accepted = partial(self._accepted_rated, rate, self._accepting(settings, context))
        plain = settings.protocol is SecurityProtocol.PLAINTEXT
        near = settings.between_brokers and plain
        listening = self._network.listen(settings.host, settings.port, accepted, near)
        self._listening.append(listening)
        rate.listening = listening
        return listening

    def _rate_of(self, settings: ListenerSettings) -> ListenerRate:
        name = BrokerConfig.max_connection_creation_rate.name
        text = settings_of(self._broker.layers, settings.name).get(name)
        limit = INT_MAX if text is None else BrokerConfig.max_connection_creation_rate.parse(text)
        alone = len(self._broker.config.listener_settings) == 1
        return ListenerRate(limit, is_counted=alone or not settings.between_brokers)

    def _accepting(self, settings: ListenerSettings, context: ListenerContext) -> Accepted:
        """What is called with each stream that this listener accepts."""
        connect: Connect = partial(self._connect, context)
        if settings.protocol.has_login:
            assert self._broker.logins is not None
            logins = self._broker.logins.listener(settings, context)
            self.contexts += logins.contexts
            connect = partial(self._connect_login, logins)
        if not settings.protocol.encrypted:
            return partial(self._accepted, connect, settings.between_brokers)
        from barnabas.broker.security.certificates import Certificates
        from barnabas.broker.security.tls_listener import TlsListener, new_thread

        if self._handshakes is None:
            self._handshakes = new_thread()
        certificates = Certificates(
            self._broker, settings.name, settings.between_brokers, self._handshakes
        )
        certificates.start()
        tls = self._tls[settings.name] = TlsListener(
            self._broker, certificates, self._handshakes, partial(self._encrypted, connect),
            self._gave_up,
        )  # fmt: skip
        return partial(self._accepted_tls, tls, settings.between_brokers)

    async def connect_between_brokers(self, host: str, port: int) -> Stream:
        """To the listener of another broker that brokers use among themselves."""
        name = self._broker.config.between_brokers
        tls = self._tls.get(name)
        if tls is None:
            near = self.protocols[name] is SecurityProtocol.PLAINTEXT
            return await self._network.connect(host, port, near)
        from barnabas.broker.security.tls_listener import connect_between_brokers

        return await connect_between_brokers(tls.certificates, self._network, host, port)

    def _address(self, settings: ListenerSettings, listening: Listening) -> Address:
        if settings.advertised is not None:
            host, port = settings.advertised
            return Address(host, port or listening.port)
        if listening.host not in EVERY_INTERFACE:
            return Address(listening.host, listening.port)
        address = Address(self._host_name(), listening.port)
        self._broker.log.info(
            "listening on every interface: clients get the name of this machine",
            listener=settings.name,
            address=str(address),
            change_with="advertised.listeners",
        )
        return address

    def close(self) -> None:
        for listening in self._listening:
            listening.close()
        if self._rates is not None:
            self._rates.close()
        for tls in self._tls.values():
            tls.stop()
        if self._handshakes is not None:
            self._handshakes.shutdown(wait=False, cancel_futures=True)

    # Connections

    def _accepted_rated(self, rate: ListenerRate, accept: Accepted, stream: Stream) -> None:
        """At once, unless there is a limit of how many connections are created."""
        broker = self._broker
        if self._rates is None:
            limit = min(rate.limit, broker.config.max_connection_creation_rate)
            if limit == INT_MAX and broker.quotas is None:
                accept(stream)
                return
            from barnabas.broker.security.connection_rates import ConnectionRates

            self._rates = ConnectionRates(broker)
        self._rates.accepted(rate, stream, accept)

    def _accepted(self, connect: Connect, between_brokers: bool, stream: Stream) -> None:
        if self._admits(stream, between_brokers):
            connect(stream, ANONYMOUS)

    def _connect(
        self, context: ListenerContext, stream: Stream, principal: Principal
    ) -> Connection:
        connection = Connection(stream, context)
        connection.principal = principal
        self._broker.connections[connection] = None
        return connection

    def _connect_login(
        self, logins: "Authentication", stream: Stream, principal: Principal
    ) -> None:
        """The login says who the client is, not its certificate."""
        logins.began(self._connect(logins.context, stream, ANONYMOUS))

    def _admits(self, stream: Stream, between_brokers: bool) -> bool:
        """Whether the limits allow another connection; if not, the stream is closed."""
        broker, config = self._broker, self._broker.config
        host = host_of(stream.peer)
        from_host = self._by_host.get(host, 0)
        count = len(broker.connections) + self._handshaking
        limit, option = config.max_connections, "max.connections"
        if between_brokers and len(self.protocols) > 1:
            limit = INT_MAX  # clients of the other listeners must not keep brokers out
        if broker.descriptors.connections_max < limit:
            limit = broker.descriptors.connections_max
            option = "the number of connections that the limit of open files allows"
        if from_host >= config.max_connections_per_ip:
            limit, option = config.max_connections_per_ip, "max.connections.per.ip"
        elif count < limit:
            self._by_host[host] = from_host + 1
            broker.counts.connections_accepted += 1
            return True
        stream.close()
        broker.counts.connections_refused += 1
        broker.log.warning("connection refused", peer=stream.peer, reason=f"{option} is {limit}")
        return False

    def closed(self, host: str) -> None:
        """One connection fewer from this host."""
        self._by_host[host] -= 1
        if not self._by_host[host]:
            del self._by_host[host]

    # Connections with TLS

    def _accepted_tls(self, tls: "TlsListener", between_brokers: bool, stream: Stream) -> None:
        if self._admits(stream, between_brokers):
            self._handshaking += 1
            tls.accepted(stream)

    def _encrypted(self, connect: Connect, stream: Stream, principal: Principal) -> None:
        self._handshaking -= 1
        connect(stream, principal)

    def _gave_up(self, stream: Stream, reason: str) -> None:
        self._handshaking -= 1
        self.closed(host_of(stream.peer))
        stream.close()
        if reason:
            self._broker.counts.connections_broken += 1
            self._broker.log.warning("connection closed", peer=stream.peer, reason=reason)
