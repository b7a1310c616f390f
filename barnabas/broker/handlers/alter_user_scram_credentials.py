"""AlterUserScramCredentials: sets and deletes the passwords of users for SCRAM.

Always: a user is changed once per request, or not at all; the salted password is not kept.
"""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from barnabas.broker.net.dispatch import Call
from barnabas.keeper.paths import USERS
from barnabas.model.errors import Code, InvalidRequest, KafkaError
from barnabas.security.sasl.credentials import (
    BY_CODE,
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    SALT_LENGTH_MAX,
    ScramHash,
    credential_text,
    from_salted,
)
from barnabas.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

if TYPE_CHECKING:
    from barnabas.broker.context import GroupsContext

ScramChange = ScramCredentialDeletion | ScramCredentialUpsertion
USER_NAME_BYTES_MAX = 300  # each may become three in the name of a node


async def handle(
    broker: "GroupsContext", request: AlterUserScramCredentialsRequest, call: Call
) -> AlterUserScramCredentialsResponse:
    changes: dict[str, list[ScramChange]] = {}
    wanted: list[ScramChange] = [*request.deletions, *request.upsertions]
    for change in wanted:
        changes.setdefault(change.name, []).append(change)
    results = []
    for user, of_user in changes.items():
        try:
            await _alter(broker, user, of_user)
        except KafkaError as error:
            broker.refused("user not altered", call, error, user=user[:100])
            results.append(
                AlterUserScramCredentialsResult(
                    user=user, error_code=error.code, error_message=error.detail
                )
            )
        else:
            broker.log.info("user altered", user=user)
            results.append(AlterUserScramCredentialsResult(user=user, error_code=0))
    return AlterUserScramCredentialsResponse(results=results)


async def _alter(broker: "GroupsContext", user: str, changes: list[ScramChange]) -> None:
    """As in Kafka: of several changes of one user, the first decides which error it is."""
    if len(changes) > 1:
        _changed(changes[0], broker.catalog.entities.get((USERS, user), {}))
        raise InvalidRequest(
            Code.DUPLICATE_RESOURCE,
            "A user credential cannot be altered twice in the same request",
        )
    (change,) = changes
    _check(change)
    await broker.catalog.configure_entity(USERS, user, partial(_changed, change))


def _check(change: ScramChange) -> ScramHash:
    if not change.name:
        raise _unacceptable("Username must not be empty")
    if len(change.name.encode()) > USER_NAME_BYTES_MAX or "\0" in change.name:
        raise _unacceptable(f"a user name has at most {USER_NAME_BYTES_MAX} bytes, and no NUL")
    hash_ = BY_CODE.get(change.mechanism)
    if hash_ is None:
        raise InvalidRequest(
            Code.UNSUPPORTED_SASL_MECHANISM,
            f"Unknown SCRAM mechanism: {change.mechanism}; 1 is SHA-256, 2 is SHA-512",
        )
    return hash_


def _changed(change: ScramChange, settings: Mapping[str, str]) -> dict[str, str]:
    """The settings of the user after the change."""
    hash_ = _check(change)
    if isinstance(change, ScramCredentialUpsertion):
        return {**settings, hash_.mechanism: _text(hash_, change)}
    if hash_.mechanism not in settings:
        raise InvalidRequest(
            Code.RESOURCE_NOT_FOUND,
            "Attempt to delete a user credential that does not exist",
        )
    return {name: value for name, value in settings.items() if name != hash_.mechanism}


def _text(hash_: ScramHash, change: ScramCredentialUpsertion) -> str:
    if change.iterations < ITERATIONS_MIN:
        raise _unacceptable(f"Too few iterations: {change.iterations}, at least {ITERATIONS_MIN}")
    if change.iterations > ITERATIONS_MAX:
        raise _unacceptable(f"Too many iterations: {change.iterations}, at most {ITERATIONS_MAX}")
    salt, salted = bytes(change.salt), bytes(change.salted_password)
    if not 0 < len(salt) <= SALT_LENGTH_MAX:
        raise _unacceptable(f"a salt of {len(salt)} bytes; 1 to {SALT_LENGTH_MAX} are accepted")
    if len(salted) != hash_.length:
        raise _unacceptable(
            f"a salted password of {len(salted)} bytes; {hash_.mechanism} has {hash_.length}"
        )
    return credential_text(from_salted(hash_, salted, salt, change.iterations))


def _unacceptable(reason: str) -> InvalidRequest:
    return InvalidRequest(Code.UNACCEPTABLE_CREDENTIAL, reason)
