"""A relay in front of a broker that loses the answers to chosen requests.

The broker must advertise the relay's address. An answer is lost by closing the connection instead
of passing it on: the request was carried out.
"""

import socket
import struct
import threading
from collections import Counter, deque
from contextlib import suppress


class LosingProxy:
    """`lose[API_KEY] = 2`: the next two answers to it are lost."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self.target = 0
        self.lose: Counter[int] = Counter()
        self.seen: list[tuple[int, int]] = []  # requests that came: API key and version
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            broker = socket.create_connection(("127.0.0.1", self.target))
            keys: deque[int] = deque()
            for flow in (self._requests, self._answers):
                threading.Thread(target=flow, args=(client, broker, keys), daemon=True).start()

    def _requests(self, client: socket.socket, broker: socket.socket, keys: deque[int]) -> None:
        with suppress(OSError):
            while frame := _frame(client):
                key, version = struct.unpack_from(">hh", frame, 4)
                self.seen.append((key, version))
                keys.append(key)
                broker.sendall(frame)
        _end(client, broker)

    def _answers(self, client: socket.socket, broker: socket.socket, keys: deque[int]) -> None:
        with suppress(OSError):
            while frame := _frame(broker):
                key = keys.popleft()
                if self.lose[key] > 0:
                    self.lose[key] -= 1
                    break
                client.sendall(frame)
        _end(client, broker)


def _frame(source: socket.socket) -> bytes:
    head = _exactly(source, 4)
    return head + _exactly(source, *struct.unpack(">i", head)) if head else b""


def _exactly(source: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = source.recv(count - len(data))
        if not piece:
            return b""
        data += piece
    return data


def _end(*sockets: socket.socket) -> None:
    for each in sockets:
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()
