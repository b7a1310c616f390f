"""The listeners of a broker: opened, advertised, and their connections within the limits.

In: the options about listeners, accepted streams. Out: connections, each with its listener's
context; the addresses that clients of each listener are given.
Always: the connections of all listeners share turns, memory and limits. A listener whose protocol
is not implemented is refused: nobody who asks for encryption or a login gets plain text.
Not here: what a connection does (connection.py).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.broker.net.connection import Connection
from barnabas.broker.net.listener_context import ListenerContext, host_of
from barnabas.config.broker_listeners import (
    EVERY_INTERFACE,
    ListenerSettings,
    SecurityProtocol,
)
from barnabas.config.kinds import Address, ListenerAddress
from barnabas.config.option import invalid
from barnabas.model.ports import Listening, Network, Stream

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

Accepted = Callable[[Stream], None]


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
        accepted = self._accepting(settings, context)
        plain = settings.protocol is SecurityProtocol.PLAINTEXT
        near = settings.between_brokers and plain
        listening = self._network.listen(settings.host, settings.port, accepted, near)
        self._listening.append(listening)
        return listening

    def _accepting(self, settings: ListenerSettings, context: ListenerContext) -> Accepted:
        """What is called with each stream that this listener accepts."""
        if settings.protocol.encrypted:
            raise invalid(
                f"listener {settings.name}: the security protocol {settings.protocol.name} is not"
                " supported yet"
            )
        if not settings.protocol.has_login:
            return self._accepting_all(settings, context)
        assert self._broker.logins is not None
        logins = self._broker.logins.listener(settings, context)
        self.contexts += logins.contexts

        def accepted(stream: Stream) -> None:
            connection = self._accepted(logins.context, settings.between_brokers, stream)
            if connection is not None:
                logins.began(connection)

        return accepted

    def _accepting_all(self, settings: ListenerSettings, context: ListenerContext) -> Accepted:
        def accepted(stream: Stream) -> None:
            self._accepted(context, settings.between_brokers, stream)

        return accepted

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

    # Connections

    def _accepted(
        self, context: ListenerContext, between_brokers: bool, stream: Stream
    ) -> Connection | None:
        broker, config = self._broker, self._broker.config
        host = host_of(stream.peer)
        from_host = self._by_host.get(host, 0)
        limit, option = config.max_connections, "max.connections"
        if between_brokers:  # clients of the other listeners must not keep brokers out
            limit = max(limit, len(broker.connections) + 1) if len(self.protocols) > 1 else limit
        if broker.descriptors.connections_max < limit:
            limit = broker.descriptors.connections_max
            option = "the number of connections that the limit of open files allows"
        if from_host >= config.max_connections_per_ip:
            limit, option = config.max_connections_per_ip, "max.connections.per.ip"
        elif len(broker.connections) < limit:
            self._by_host[host] = from_host + 1
            connection = Connection(stream, context)
            broker.connections[connection] = None
            broker.counts.connections_accepted += 1
            return connection
        stream.close()
        broker.counts.connections_refused += 1
        broker.log.warning("connection refused", peer=stream.peer, reason=f"{option} is {limit}")
        return None

    def closed(self, connection: Connection) -> None:
        """One connection fewer from its host."""
        host = connection.host
        self._by_host[host] -= 1
        if not self._by_host[host]:
            del self._by_host[host]
