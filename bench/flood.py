"""A flood of one kind against a broker, until standard input ends; then it prints the count.

`python -m bench.flood '[KIND, HOST, PORT, CA]'`
"""

import json
import socket
import ssl
import sys
import threading
from collections.abc import Callable
from contextlib import suppress

from barnabas.wire.frames import request_frame
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest

THREADS = 8
HANDSHAKE, AUTHENTICATE = 17, 36
VALUE = b"x" * 10_000


class Flood:
    def __init__(self, host: str, port: int, trusted: str) -> None:
        self._address = (host, port)
        self._trusted = trusted
        self._context = ssl.create_default_context(cafile=trusted)
        self._lock = threading.Lock()
        self.count = 0

    def one(self, kind: str) -> None:
        with suppress(OSError), socket.create_connection(self._address, timeout=10) as plain:
            if kind == "half handshakes":
                incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
                client = self._context.wrap_bio(incoming, outgoing, server_hostname="localhost")
                with suppress(ssl.SSLWantReadError):
                    client.do_handshake()
                plain.sendall(outgoing.read())
            else:
                with self._context.wrap_socket(plain, server_hostname="localhost") as encrypted:
                    if kind == "failed logins":
                        _fail_to_log_in(encrypted)
        with self._lock:
            self.count += 1

    def produce(self, ended: threading.Event) -> None:
        """As a client that is over its quota; bytes that were acknowledged."""
        import barnabas.sync
        from tests.compat.sasl_brokers import PASSWORD, USER

        settings = {
            "bootstrap.servers": "{}:{}".format(*self._address),
            "security.protocol": "SASL_SSL",
            "ssl.truststore.location": self._trusted,
            "sasl.mechanism": "PLAIN",
            "sasl.username": USER,
            "sasl.password": PASSWORD,
            "client.id": "noisy",
        }
        with barnabas.sync.Producer(settings) as producer:
            while not ended.is_set():
                producer.send("noisy", VALUE, partition=0)
                self.count += len(VALUE)


def _fail_to_log_in(encrypted: ssl.SSLSocket) -> None:
    handshake = SaslHandshakeRequest(mechanism="PLAIN")
    token = SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong")
    encrypted.sendall(request_frame(HANDSHAKE, 1, 1, "flood", handshake))
    encrypted.sendall(request_frame(AUTHENTICATE, 2, 2, "flood", token))
    while encrypted.recv(4096):
        pass


def main() -> None:
    kind, host, port, trusted = json.loads(sys.argv[1])
    flood = Flood(host, port, trusted)
    ended = threading.Event()

    def run() -> None:
        while not ended.is_set():
            flood.one(kind)

    work: Callable[[], None] = run
    threads = THREADS * 8 if kind == "failed logins" else THREADS  # most of them wait for replies
    if kind == "produce":
        threads, work = 1, lambda: flood.produce(ended)
    running = [threading.Thread(target=work, daemon=True) for _ in range(threads)]
    for thread in running:
        thread.start()
    print("begun", flush=True)
    sys.stdin.read()
    ended.set()
    print(flood.count, flush=True)


if __name__ == "__main__":
    main()
