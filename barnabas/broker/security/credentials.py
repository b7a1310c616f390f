"""The SCRAM credentials of users, as they are in the settings of users in the keeper.

In: settings of users, which the catalog keeps up to date. Out: the credential for a login, a fake
one if there is none; the users and their mechanisms.
Always: a login that begins after a change is applied here uses the new credential.
"""

from collections import Counter
from collections.abc import Callable, Mapping

from barnabas.keeper.keeper import Keeper, NodeExists, NoNode, ensure, parent
from barnabas.keeper.paths import LOGIN_SECRET, USERS
from barnabas.security.sasl.credentials import (
    HASHES,
    ITERATIONS_MIN,
    ScramCredential,
    ScramHash,
    credential_text,
    fake_credential,
    read_credential,
)
from barnabas.security.sasl.mechanism import SaslIdentity
from barnabas.security.sasl.scram_server import FoundCredential
from barnabas.system.logs import Logger

Entities = Mapping[tuple[str, str], Mapping[str, str]]


class ScramUsers:
    """Of one broker. `entities`: the settings of users and others, as they are now."""

    def __init__(self, entities: Callable[[], Entities], secret: bytes, log: Logger) -> None:
        self._entities = entities
        self._secret = secret
        self._log = log
        self._fake_iterations: dict[str, int] = {}

    def find(self, hash_: ScramHash, user: str) -> FoundCredential:
        """The same work for a known and an unknown user: the time must not show which."""
        iterations = self._fake_iterations.get(hash_.mechanism) or self._usual_iterations(hash_)
        fake = fake_credential(hash_, self._secret, user, iterations)
        fake_text, identity = credential_text(fake), SaslIdentity(user)
        text = self._entities().get((USERS, user), {}).get(hash_.mechanism)
        stored = self._readable(hash_, user, fake_text if text is None else text)
        if text is None or stored is None:
            return FoundCredential(fake, None)
        return FoundCredential(stored, identity)

    def _readable(self, hash_: ScramHash, user: str, text: str) -> ScramCredential | None:
        return stored_credential({(USERS, user): {hash_.mechanism: text}}, hash_, user, self._log)

    def changed(self) -> None:
        """Users have changed."""
        self._fake_iterations.clear()

    def _usual_iterations(self, hash_: ScramHash) -> int:
        """Of most users: a fake credential must not differ from theirs."""
        entities = self._entities()
        found = Counter(
            stored.iterations
            for kind, user in entities
            if kind == USERS
            and (stored := stored_credential(entities, hash_, user, self._log)) is not None
        )
        usual = found.most_common(1)[0][0] if found else ITERATIONS_MIN
        self._fake_iterations[hash_.mechanism] = usual
        return usual


def stored_credential(
    entities: Entities, hash_: ScramHash, user: str, log: Logger
) -> ScramCredential | None:
    text = entities.get((USERS, user), {}).get(hash_.mechanism)
    if not text:
        return None
    try:
        return read_credential(hash_, text)
    except ValueError as problem:
        log.error(
            "credential not usable: set the password of this user again",
            user=user,
            mechanism=hash_.mechanism,
            reason=str(problem),
        )
        return None


def described_users(entities: Entities, log: Logger) -> dict[str, dict[int, int]]:
    """For each user with credentials: iterations by the number of the mechanism."""
    found: dict[str, dict[int, int]] = {}
    for kind, user in list(entities):
        if kind == USERS:
            credentials = {
                hash_.code: stored.iterations
                for hash_ in HASHES.values()
                if (stored := stored_credential(entities, hash_, user, log)) is not None
            }
            if credentials:
                found[user] = credentials
    return found


def load_secret(keeper: Keeper, new_secret: bytes) -> bytes:
    """What the salts of unknown users are made from: the same on every broker, and after a
    restart."""
    try:
        return keeper.get(LOGIN_SECRET).data
    except NoNode:
        pass
    ensure(keeper, parent(LOGIN_SECRET))
    try:
        keeper.create(LOGIN_SECRET, new_secret)
    except NodeExists:
        return keeper.get(LOGIN_SECRET).data
    return new_secret
