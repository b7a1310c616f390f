"""What a broker stores of a SCRAM password, and how: as Kafka did in ZooKeeper.

In: a password, or the salted password that a client sends. Out: a credential, and its text in the
settings of a user: `salt=...,stored_key=...,server_key=...,iterations=4096`.
Always: the password cannot be read from a credential; neither of them is ever printed.
"""

from base64 import b64decode, b64encode
from hashlib import pbkdf2_hmac, sha256, sha512
from hmac import digest
from typing import Any, NamedTuple

from barnabas.security.sasl.mechanism import SCRAM_SHA_256, SCRAM_SHA_512

ITERATIONS_MIN = 4_096
ITERATIONS_MAX = 16_384
SALT_LENGTH = 32
SALT_LENGTH_MAX = 1_024


class ScramHash(NamedTuple):
    """The hash function of a SCRAM mechanism, and the number of the mechanism in requests."""

    mechanism: str
    name: str
    code: int
    length: int
    new: Any

    def mac(self, key: bytes, message: bytes) -> bytes:
        return digest(key, message, self.name)

    def hash(self, data: bytes) -> bytes:
        return bytes(self.new(data).digest())

    def salted(self, password: str, salt: bytes, iterations: int) -> bytes:
        """Slow on purpose."""
        return pbkdf2_hmac(self.name, password.encode(), salt, iterations)


HASHES = {
    SCRAM_SHA_256: ScramHash(SCRAM_SHA_256, "sha256", 1, 32, sha256),
    SCRAM_SHA_512: ScramHash(SCRAM_SHA_512, "sha512", 2, 64, sha512),
}
BY_CODE = {each.code: each for each in HASHES.values()}


class ScramCredential:
    """Salt, keys and the number of iterations of one user and mechanism."""

    __slots__ = ("iterations", "salt", "server_key", "stored_key")

    def __init__(self, salt: bytes, stored_key: bytes, server_key: bytes, iterations: int) -> None:
        self.salt = salt
        self.stored_key = stored_key
        self.server_key = server_key
        self.iterations = iterations

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ScramCredential) and credential_text(self) == credential_text(
            other
        )

    def __hash__(self) -> int:
        return hash(self.stored_key)


def credential(hash_: ScramHash, password: str, salt: bytes, iterations: int) -> ScramCredential:
    """From a password."""
    return from_salted(hash_, hash_.salted(password, salt, iterations), salt, iterations)


def from_salted(hash_: ScramHash, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """From the salted password, which is as good as the password: it is not kept."""
    client_key = hash_.mac(salted, b"Client Key")
    server_key = hash_.mac(salted, b"Server Key")
    return ScramCredential(salt, hash_.hash(client_key), server_key, iterations)


def credential_text(stored: ScramCredential) -> str:
    """The value of the setting SCRAM-SHA-256 or SCRAM-SHA-512 of a user."""
    salt, stored_key, server_key = (
        b64encode(part).decode() for part in (stored.salt, stored.stored_key, stored.server_key)
    )
    return (
        f"salt={salt},stored_key={stored_key},server_key={server_key},"
        f"iterations={stored.iterations}"
    )


def read_credential(hash_: ScramHash, text: str) -> ScramCredential:
    """ValueError says what is wrong, without the text."""
    fields: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not equals or name in fields:
            raise ValueError("expected salt=,stored_key=,server_key=,iterations=")
        fields[name] = value
    if sorted(fields) != ["iterations", "salt", "server_key", "stored_key"]:
        raise ValueError("expected salt=,stored_key=,server_key=,iterations=")
    try:
        salt, stored_key, server_key = (
            b64decode(fields[name], validate=True) for name in ("salt", "stored_key", "server_key")
        )
        iterations = int(fields["iterations"])
    except ValueError:
        raise ValueError("expected base64 and a number of iterations") from None
    if len(stored_key) != hash_.length or len(server_key) != hash_.length or not salt:
        raise ValueError(f"expected keys of {hash_.length} bytes and a salt")
    if iterations < ITERATIONS_MIN:
        raise ValueError(f"expected at least {ITERATIONS_MIN} iterations, not {iterations}")
    return ScramCredential(salt, stored_key, server_key, iterations)


def fake_credential(hash_: ScramHash, secret: bytes, user: str, iterations: int) -> ScramCredential:
    """For a user that does not exist: always the same salt, and keys that no password has.

    Without it, a client could find out which users exist.
    """
    seed = f"{hash_.mechanism}\0{user}".encode("utf-8", "surrogatepass")
    salt = hash_.mac(secret, b"salt\0" + seed)[:SALT_LENGTH]
    stored_key = hash_.mac(secret, b"stored\0" + seed)
    return ScramCredential(salt, stored_key, hash_.mac(secret, b"server\0" + seed), iterations)
