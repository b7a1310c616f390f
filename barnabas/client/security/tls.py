"""TLS of a client: its options for OpenSSL, and a socket that encrypts.

In: options, an open socket. Out: an `ssl.SSLContext`; a `TlsSocket` after the handshake, with the
calls of a socket that both drivers use (aio/, blocking/).
Always: the certificate and the host name of a broker are checked, unless the options say otherwise.
A handshake that fails is not tried again: the error says why, and what to set.
"""

import asyncio
import socket
import ssl
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.client.sockets import TlsRefused
from barnabas.config.kinds import Address
from barnabas.config.option import invalid
from barnabas.model.errors import Code, Failed
from barnabas.model.ports import Buffer
from barnabas.system.tls.contexts import client_context, describe
from barnabas.system.tls.records import READ_SIZE, TlsRecords
from barnabas.system.tls.stores import read_key_store, read_store_file, read_trust_store

if TYPE_CHECKING:
    from barnabas.config.client import ClientConfig

_HANDSHAKE_READ = 16 * 1024


def tls_context(config: "ClientConfig") -> ssl.SSLContext:
    """INVALID_CONFIG or the problem of a file, if there can be none."""
    location, key = config.ssl_keystore_location or None, config.ssl_keystore_key or None
    chain = config.ssl_keystore_certificate_chain or None
    if config.ssl_certificate_location or config.ssl_key_location:
        if location or key:
            raise invalid(
                "ssl.keystore.location and ssl.certificate.location exclude each other: set one"
            )
        if not (config.ssl_certificate_location and config.ssl_key_location):
            raise invalid("ssl.certificate.location and ssl.key.location need each other: set both")
        chain = read_store_file(config.ssl_certificate_location).decode("ascii", "replace")
        key = read_store_file(config.ssl_key_location).decode("ascii", "replace")
    keys = read_key_store(
        location,
        key,
        chain,
        config.ssl_keystore_password or None,
        config.ssl_key_password or None,
        config.ssl_keystore_type or None,
    )
    trusted = read_trust_store(
        config.ssl_truststore_location or None,
        config.ssl_truststore_certificates or None,
        config.ssl_truststore_password or None,
        config.ssl_truststore_type or None,
    )
    return client_context(
        keys,
        trusted,
        check_host=config.ssl_endpoint_identification_algorithm.lower() == "https",
        verify=config.enable_ssl_certificate_verification,
        versions=config.ssl_enabled_protocols,
        suites=config.ssl_cipher_suites,
    )


class _UnencryptedSocket:
    """What the records need of the socket, blocking or not as the socket is."""

    def __init__(self, opened: socket.socket) -> None:
        self._socket = opened

    def receive(self, buffer: memoryview) -> int:
        return self._socket.recv_into(buffer)

    def send(self, parts: Sequence[Buffer], more: bool) -> int:
        (data,) = parts
        if self._socket.gettimeout() != 0:
            self._socket.sendall(data)
            return len(data)
        try:
            return self._socket.send(data)
        except (BlockingIOError, InterruptedError):
            return 0


class TlsSocket:
    """An open socket with TLS. Dropped without a close, it closes, as one without TLS does."""

    def __init__(self, opened: socket.socket, context: ssl.SSLContext, host: str) -> None:
        self._socket = opened
        self._received = memoryview(bytearray(READ_SIZE))
        link = _UnencryptedSocket(opened)
        self.records = TlsRecords(
            context, link.send, link.receive, self._received, server_side=False, host=host
        )
        self.buffered = False
        """Whether decrypted bytes may be waiting, which select() does not see."""

    # As of a socket

    def recv_into(self, buffer: memoryview) -> int:
        try:
            count = self.read_decrypted(buffer)
            while not count and not self.records.ended:
                arrived = self._socket.recv_into(self._received)
                if not arrived:
                    return 0
                self.records.feed(self._received[:arrived])
                count = self.read_decrypted(buffer)
        except ssl.SSLError as problem:
            raise _refusal(problem) from None
        self.buffered = count == len(buffer)
        return count

    def read_decrypted(self, buffer: memoryview) -> int:
        """What was received before and fits; 0: nothing. It never waits."""
        return self.records.read_decrypted(buffer)

    def sendmsg(self, parts: Sequence[Buffer]) -> int:
        count = self.records.send(parts, False)
        if not count and any(map(len, parts)):
            raise BlockingIOError
        return count

    def settimeout(self, timeout_s: float) -> None:
        self._socket.settimeout(timeout_s)

    def fileno(self) -> int:
        return self._socket.fileno()

    def getpeername(self) -> tuple[str, int]:
        host, port = self._socket.getpeername()[:2]
        return host, port

    def setsockopt(self, level: int, option: int, value: bytes) -> None:
        self._socket.setsockopt(level, option, value)

    def close(self) -> None:
        self._socket.close()


async def secured(
    loop: asyncio.AbstractEventLoop,
    opened: socket.socket,
    context: ssl.SSLContext,
    address: Address,
) -> TlsSocket:
    """After the handshake, on an event loop."""
    encrypted = TlsSocket(opened, context, address.host)
    arrived: Buffer = b""
    try:
        while True:
            done, problem = _step(encrypted, arrived)
            if outgoing := encrypted.records.outgoing():
                await loop.sock_sendall(opened, outgoing)
            if problem is not None:
                raise problem
            if done:
                return encrypted
            arrived = await loop.sock_recv(opened, _HANDSHAKE_READ)
            if not arrived:
                raise ConnectionResetError("the broker closed during the TLS handshake")
    except ssl.SSLError as failure:
        opened.close()
        raise _failed(address, failure) from None
    except BaseException:
        opened.close()
        raise


def secured_blocking(
    opened: socket.socket, context: ssl.SSLContext, address: Address, deadline: float
) -> TlsSocket:
    """After the handshake, on a thread."""
    encrypted = TlsSocket(opened, context, address.host)
    arrived: Buffer = b""
    try:
        while True:
            done, problem = _step(encrypted, arrived)
            opened.settimeout(max(0.001, deadline - time.monotonic()))
            if outgoing := encrypted.records.outgoing():
                opened.sendall(outgoing)
            if problem is not None:
                raise problem
            if done:
                return encrypted
            arrived = opened.recv(_HANDSHAKE_READ)
            if not arrived:
                raise ConnectionResetError("the broker closed during the TLS handshake")
    except ssl.SSLError as failure:
        opened.close()
        raise _failed(address, failure) from None
    except BaseException:
        opened.close()
        raise


def _step(encrypted: TlsSocket, arrived: Buffer) -> tuple[bool, ssl.SSLError | None]:
    """The problem is raised after the alert was sent."""
    try:
        return encrypted.records.handshake(arrived), None
    except ssl.SSLError as problem:
        return False, problem


def _failed(address: Address, problem: ssl.SSLError) -> Failed:
    hint = ""
    if isinstance(problem, ssl.SSLCertVerificationError):
        hint = (
            ": set ssl.truststore.location to the certificate of the authority that signed it"
            if problem.verify_code not in _HOST_MISMATCH
            else ": connect by a name in the certificate"
        )
    return Failed(Code.NETWORK_EXCEPTION, f"{address}: TLS handshake: {describe(problem)}{hint}")


_HOST_MISMATCH = (62, 64)  # X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH


def _refusal(problem: ssl.SSLError) -> OSError:
    """With TLS 1.3, a broker refuses a client's certificate only after the handshake."""
    reason = problem.reason or ""
    if "CERTIFICATE" in reason or "UNKNOWN_CA" in reason:
        return TlsRefused(f"TLS: {describe(problem)}")
    return ConnectionResetError(f"TLS: {describe(problem)}")
