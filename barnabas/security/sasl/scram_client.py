"""The client's side of SCRAM-SHA-256 and SCRAM-SHA-512.

Always: the broker must prove that it knows the password too; a broker cannot make the client work
without bound, or with a weak salted password.
"""

from base64 import b64encode
from hmac import compare_digest

from barnabas.security.sasl.credentials import ITERATIONS_MIN, ScramHash
from barnabas.security.sasl.mechanism import LoginFailed
from barnabas.security.sasl.scram_messages import read_server_final, read_server_first, saslname

CLIENT_ITERATIONS_MAX = 200_000  # some 0.1 s; other brokers may allow more than ours
_GS2 = "n,,"


class ScramClient:
    """One exchange. `by_token`: user and password are id and HMAC of a delegation token."""

    __slots__ = ("_bare", "_hash", "_nonce", "_password", "_signature", "_step", "done")

    def __init__(
        self, hash_: ScramHash, user: str, password: str, nonce: str, by_token: bool = False
    ) -> None:
        self._hash = hash_
        self._password = password
        self._nonce = nonce
        extension = ",tokenauth=true" if by_token else ""
        self._bare = f"n={saslname(user)},r={nonce}{extension}"
        self._signature = b""
        self._step = 0
        self.done = False

    def first(self) -> bytes:
        return f"{_GS2}{self._bare}".encode()

    def respond(self, token: bytes) -> bytes | None:
        self._step += 1
        if self._step == 1:
            return self._prove(token)
        if self._step > 2 or not compare_digest(read_server_final(token), self._signature):
            raise LoginFailed("the broker does not know the password of this user")
        self.done = True
        return None

    def _prove(self, token: bytes) -> bytes:
        reply = read_server_first(token)
        if not reply.nonce.startswith(self._nonce) or len(reply.nonce) == len(self._nonce):
            raise LoginFailed("the broker's nonce does not continue the client's")
        if not ITERATIONS_MIN <= reply.iterations <= CLIENT_ITERATIONS_MAX:
            raise LoginFailed(
                f"the broker asks for {reply.iterations} iterations; accepted are"
                f" {ITERATIONS_MIN} to {CLIENT_ITERATIONS_MAX}"
            )
        hash_ = self._hash
        salted = hash_.salted(self._password, reply.salt, reply.iterations)
        client_key = hash_.mac(salted, b"Client Key")
        unproved = f"c={b64encode(_GS2.encode()).decode()},r={reply.nonce}"
        signed = f"{self._bare},{reply.text},{unproved}".encode()
        signature = hash_.mac(hash_.hash(client_key), signed)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._signature = hash_.mac(hash_.mac(salted, b"Server Key"), signed)
        return f"{unproved},p={b64encode(proof).decode()}".encode()
