"""The broker's side of SCRAM-SHA-256 and SCRAM-SHA-512.

In: tokens of the client, a nonce, credentials. Out: replies, and who the client is.
Always: an unknown user gets the same messages as a known one with a wrong password, and costs as
much time; no password and no key leaves here.
"""

from base64 import b64encode
from collections.abc import Callable
from hmac import compare_digest
from typing import NamedTuple

from barnabas.security.sasl.credentials import ScramCredential, ScramHash
from barnabas.security.sasl.mechanism import LoginFailed, SaslIdentity
from barnabas.security.sasl.scram_messages import (
    ClientFirst,
    read_client_final,
    read_client_first,
    server_first,
)


class FoundCredential(NamedTuple):
    """The credential of a name. `identity` is None if the credential is a fake."""

    credential: ScramCredential
    identity: SaslIdentity | None


FindCredential = Callable[[str, bool], FoundCredential]
"""By the name that a client gave; True: the name is the id of a delegation token."""


class ScramServer:
    """One exchange: two tokens."""

    def __init__(self, hash_: ScramHash, nonce: str, find: FindCredential) -> None:
        self._hash = hash_
        self._nonce = nonce
        self._find = find
        self._first: ClientFirst | None = None
        self._reply = ""
        self._found: FoundCredential | None = None
        self.identity: SaslIdentity | None = None

    def respond(self, token: bytes) -> bytes:
        if self.identity is not None:
            raise LoginFailed("the client sent a token after the last one")
        if self._first is None:
            return self._respond_to_first(token)
        return self._respond_to_final(token, self._first)

    def _respond_to_first(self, token: bytes) -> bytes:
        self._first = first = read_client_first(token)
        if first.authorization_id not in ("", first.user):
            raise LoginFailed(
                f"user {first.user!r:.100} requests to act as {first.authorization_id!r:.100}"
            )
        self._found = self._find(first.user, first.token)
        stored = self._found.credential
        self._reply = server_first(first.nonce + self._nonce, stored.salt, stored.iterations)
        return self._reply.encode()

    def _respond_to_final(self, token: bytes, first: ClientFirst) -> bytes:
        found = self._found
        assert found is not None
        final = read_client_final(token)
        nonce = first.nonce + self._nonce
        if final.nonce == first.nonce + nonce:  # Kafka 4 refuses it too
            raise LoginFailed(
                "the client sent its nonce twice, as librdkafka before 2.6.1 does: update it"
            )
        if not compare_digest(final.nonce, nonce):
            raise LoginFailed("the nonce is not the one of this exchange")
        if final.gs2 != first.gs2.encode():
            raise LoginFailed("the last message names another channel binding than the first")
        hash_, stored = self._hash, found.credential
        signed = f"{first.bare},{self._reply},{final.unproved}".encode()
        client_signature = hash_.mac(stored.stored_key, signed)
        if len(final.proof) != len(client_signature):
            raise LoginFailed(f"a proof of {len(final.proof)} bytes")
        client_key = bytes(a ^ b for a, b in zip(final.proof, client_signature, strict=True))
        proved = compare_digest(hash_.hash(client_key), stored.stored_key)
        if not proved or found.identity is None:
            raise LoginFailed(f"user {first.user!r:.100}: unknown user or wrong password")
        self.identity = found.identity
        return b"v=" + b64encode(hash_.mac(stored.server_key, signed))
