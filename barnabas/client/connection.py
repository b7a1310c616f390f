"""A blocking connection to one broker: a socket around a session.

Always: no call takes longer than its timeout; whatever goes wrong with the socket is a
Retriable that names the broker, and the connection is closed.
"""

import socket
import time
from typing import Any, TypeVar

import barnabas
from barnabas.client.session import Session
from barnabas.config.kinds import Address
from barnabas.model.errors import Code, KafkaError, Retriable
from barnabas.wire.codec import Message

M = TypeVar("M", bound=Message)
_SEND_PARTS_MAX = 512  # below the kernel's limit of pieces in one call


class Connection:
    """Greets the broker as it opens. Requests may be sent ahead; answers come in order."""

    def __init__(self, address: Address, *, client_id: str, timeout_ms: int) -> None:
        self.address = address
        self._session = Session(client_id, ("barnabas", barnabas.__version__))
        self._deadline = time.monotonic() + timeout_ms / 1000
        try:
            self._socket = socket.create_connection(address, timeout=timeout_ms / 1000)
        except OSError as problem:
            raise self._lost(problem) from None
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            parts: list[Any] | None = self._session.greeting()
            while parts is not None:
                self._write(parts)
                parts = self._session.greeted(self._read())
        except BaseException:
            self.close()
            raise

    def call(
        self,
        request: Message,
        answer: type[M],
        *,
        timeout_ms: int,
        version_max: int | None = None,
    ) -> M:
        """Send a request and wait for its answer."""
        self.send(request, timeout_ms=timeout_ms, version_max=version_max)
        return self.receive(answer, timeout_ms=timeout_ms)

    def send(
        self,
        request: Message,
        *,
        timeout_ms: int,
        version_max: int | None = None,
        answered: bool = True,
    ) -> None:
        parts = self._session.request(request, version_max=version_max, answered=answered)
        self._deadline = time.monotonic() + timeout_ms / 1000
        self._write(parts)

    def receive(self, answer: type[M], *, timeout_ms: int) -> M:
        """The answer to the oldest request that has none yet."""
        self._deadline = time.monotonic() + timeout_ms / 1000
        response = self._read()
        assert isinstance(response, answer)
        return response

    def version_of(self, api_key: int) -> int:
        """The version in which a request of this API would go out."""
        return self._session.version_of(api_key)

    def close(self) -> None:
        self._socket.close()

    def _write(self, parts: list[Any]) -> None:
        try:
            rest = [memoryview(part) for part in parts if len(part)]
            while rest:
                self._socket.settimeout(self._remaining())
                sent = self._socket.sendmsg(rest[:_SEND_PARTS_MAX])
                while rest and sent >= len(rest[0]):
                    sent -= len(rest.pop(0))
                if sent:
                    rest[0] = rest[0][sent:]
        except OSError as problem:
            self.close()
            raise self._lost(problem) from None

    def _read(self) -> Message:
        response = None
        try:
            while response is None:
                self._socket.settimeout(self._remaining())
                count = self._socket.recv_into(self._session.room())
                if count == 0:
                    raise ConnectionResetError("the broker closed the connection")
                response = self._session.received(count)
        except OSError as problem:
            self.close()
            raise self._lost(problem) from None
        except KafkaError:
            self.close()  # what follows in the stream can no longer be trusted
            raise
        return response

    def _remaining(self) -> float:
        remaining = self._deadline - time.monotonic()
        if remaining <= 0:
            raise TimeoutError("no answer in time")
        return remaining

    def _lost(self, problem: OSError) -> Retriable:
        if isinstance(problem, TimeoutError):
            return Retriable(Code.REQUEST_TIMED_OUT, f"{self.address}: no answer in time")
        reason = problem.strerror or str(problem)
        return Retriable(Code.NETWORK_EXCEPTION, f"{self.address}: {reason}")
