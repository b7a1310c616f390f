"""The keys and certificates of one listener, read again when their files change.

In: the options about TLS of a listener, changes of files. Out: contexts for new connections.
Always: a new certificate with another subject or other names is refused unless the options allow
it, and so is one for the listener between brokers that the trust store rejects: brokers would lose
each other. Then the old one stays in use, and the log says why. Open connections keep theirs.
"""

import asyncio
import os
import ssl
from concurrent.futures import Executor
from typing import TYPE_CHECKING, NamedTuple

from barnabas.config.broker_tls import ListenerTlsConfig
from barnabas.config.option import invalid
from barnabas.model.errors import Code, Failed, KafkaError
from barnabas.security.certificate import CertificateFacts, read_certificate
from barnabas.security.principal_mapping import PrincipalMapping
from barnabas.system.tls.contexts import client_context, describe, server_context
from barnabas.system.tls.stores import read_key_store, read_trust_store

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

LOOK_S = 2.0
WARN_DAYS = 30
_DAY_S = 86_400
_ROUNDS_MAX = 10  # of a handshake in memory; TLS 1.2 needs four


class Loaded(NamedTuple):
    """What the files had at one time."""

    server: ssl.SSLContext
    client: ssl.SSLContext
    own: CertificateFacts


class Certificates:
    """Of one listener. `start` begins to watch the files, `stop` ends it."""

    def __init__(
        self, broker: "Broker", listener: str, between_brokers: bool, thread: Executor
    ) -> None:
        self._broker = broker
        self._listener = listener
        self._between_brokers = between_brokers
        self._thread = thread
        self._config = ListenerTlsConfig(broker.layers, listener)
        try:
            self.mapping = PrincipalMapping(self._config.ssl_principal_mapping_rules)
        except ValueError as problem:
            raise invalid(f"broker option ssl.principal.mapping.rules: {problem}") from None
        self._seen = self._stamps()
        self.loaded = self._load()
        self._check_chain(self.loaded)
        self._timer: asyncio.TimerHandle | None = None
        self._reading: asyncio.Task[None] | None = None
        self._warned_day = -1
        self._warn()

    def start(self) -> None:
        self._timer = self._broker.loop.call_later(LOOK_S, self._look)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._reading is not None:
            self._reading.cancel()

    # Reading

    def _load(self) -> Loaded:
        config = self._config
        keys = read_key_store(
            config.ssl_keystore_location,
            config.ssl_keystore_key,
            config.ssl_keystore_certificate_chain,
            config.ssl_keystore_password,
            config.ssl_key_password,
            config.ssl_keystore_type,
        )
        trusted = read_trust_store(
            config.ssl_truststore_location,
            config.ssl_truststore_certificates,
            config.ssl_truststore_password,
            config.ssl_truststore_type,
        )
        versions = [each for each in config.ssl_enabled_protocols if each <= config.ssl_protocol]
        suites = config.ssl_cipher_suites
        try:
            server = server_context(keys, trusted, config.ssl_client_auth, versions, suites)
        except KafkaError as problem:
            where = f"listener {self._listener}: {problem.detail}"
            raise Failed(Code.INVALID_CONFIG, where) from None
        check_host = config.ssl_endpoint_identification_algorithm.lower() == "https"
        client = client_context(
            keys, trusted, check_host=check_host, versions=versions, suites=suites
        )
        assert keys is not None
        return Loaded(server, client, read_certificate(keys.own))

    def _stamps(self) -> list[tuple[int, int, int] | None]:
        """Changes with the files; None for a file that is missing now."""
        found: list[tuple[int, int, int] | None] = []
        paths = (self._config.ssl_keystore_location, self._config.ssl_truststore_location)
        for path in paths:
            try:
                stat = None if path is None else os.stat(path)
            except OSError:
                stat = None
            found.append(None if stat is None else (stat.st_mtime_ns, stat.st_size, stat.st_ino))
        return found

    def _look(self) -> None:
        self._timer = self._broker.loop.call_later(LOOK_S, self._look)
        self._warn()
        stamps = self._stamps()
        if stamps != self._seen and (self._reading is None or self._reading.done()):
            self._seen = stamps
            self._reading = self._broker.loop.create_task(self._read_again())

    async def _read_again(self) -> None:
        try:
            loaded = await self._broker.loop.run_in_executor(self._thread, self._replacement)
        except (KafkaError, ValueError, OSError) as problem:
            reason = problem.detail if isinstance(problem, KafkaError) else str(problem)
            self._broker.log.error(
                "certificates not replaced: the old ones stay in use",
                listener=self._listener,
                reason=reason,
            )
            return
        self.loaded = loaded
        self._warned_day = -1
        self._broker.log.info(
            "certificates replaced", listener=self._listener, subject=loaded.own.subject
        )

    def _replacement(self) -> Loaded:
        loaded, old = self._load(), self.loaded.own
        if loaded.own.subject != old.subject and not self._config.ssl_allow_dn_changes:
            raise Failed(
                Code.INVALID_CONFIG,
                f"the new certificate is of {loaded.own.subject!r}, the old one of"
                f" {old.subject!r}: ssl.allow.dn.changes=true allows that",
            )
        if loaded.own.names != old.names and not self._config.ssl_allow_san_changes:
            raise Failed(
                Code.INVALID_CONFIG,
                "the new certificate has other alternative names than the old one:"
                " ssl.allow.san.changes=true allows that",
            )
        self._check_chain(loaded)
        return loaded

    def _check_chain(self, loaded: Loaded) -> None:
        """Between brokers, each is server and client with the same stores."""
        if self._between_brokers and self._broker.cluster is not None:
            problem = handshake_in_memory(loaded)
            if problem:
                raise Failed(
                    Code.INVALID_CONFIG,
                    f"listener {self._listener}: brokers could not connect to each other with these"
                    f" stores: {problem}",
                )

    def _warn(self) -> None:
        """Once a day, while the certificate ends soon."""
        days = (self.loaded.own.not_after - self._broker.clock.wall_ms() // 1000) // _DAY_S
        if days >= WARN_DAYS or days == self._warned_day:
            return
        self._warned_day = days
        self._broker.log.warning(
            "certificate has expired" if days < 0 else "certificate expires soon",
            listener=self._listener,
            subject=self.loaded.own.subject,
            days_left=days,
        )


def handshake_in_memory(loaded: Loaded) -> str:
    """Why a client with these stores would not connect to a broker with them; empty if it would.

    The host name is not checked: it is only known for real connections.
    """
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = loaded.server.wrap_bio(to_server, to_client, server_side=True)
    checked = loaded.client.check_hostname
    loaded.client.check_hostname = False
    try:
        client = loaded.client.wrap_bio(to_client, to_server, server_hostname=None)
    finally:
        loaded.client.check_hostname = checked
    done: set[ssl.SSLObject] = set()
    for _ in range(_ROUNDS_MAX):
        for side in (client, server):
            try:
                side.do_handshake()
                done.add(side)
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError as problem:
                return describe(problem)
        if len(done) == 2:
            return ""
    return "the handshake does not end"
