"""Users of SCRAM: list them, set their passwords, delete them.

Always: a password never leaves this process; the salted password is sent, as
Kafka's tools do. It is enough to log in, so use a connection with TLS.
"""

from collections.abc import Iterable
from secrets import token_bytes
from typing import NamedTuple

from barnabas.client.cluster import ClusterClient
from barnabas.client.errors import check
from barnabas.model.errors import Code, InvalidRequest
from barnabas.security.sasl.credentials import BY_CODE, HASHES, ITERATIONS_MIN, SALT_LENGTH
from barnabas.security.sasl.mechanism import SCRAMS
from barnabas.wire.messages import alter_user_scram_credentials as alter
from barnabas.wire.messages import describe_user_scram_credentials as describe


class ScramUser(NamedTuple):
    """A user, and for each mechanism the number of iterations."""

    name: str
    mechanisms: dict[str, int]


class UsersAdmin:
    """Users of SCRAM."""

    _cluster: ClusterClient

    async def users(self, names: Iterable[str] = ()) -> list[ScramUser]:
        """These users, or all; an unknown one is an error."""
        request = describe.DescribeUserScramCredentialsRequest(
            users=[describe.UserName(name=name) for name in names]
        )

        async def attempt() -> list[ScramUser]:
            connection = await self._cluster.anyone()
            response = await connection.call(
                request,
                describe.DescribeUserScramCredentialsResponse,
                timeout_ms=self._cluster.timeout_ms,
            )
            check(response.error_code, response.error_message, about="users")
            found = []
            for each in response.results:
                check(each.error_code, each.error_message, about=f"user {each.user!r}")
                mechanisms = {
                    BY_CODE[info.mechanism].mechanism: info.iterations
                    for info in each.credential_infos
                    if info.mechanism in BY_CODE
                }
                found.append(ScramUser(each.user, mechanisms))
            return found

        return await self._cluster.retrying(attempt)

    async def set_password(
        self,
        user: str,
        password: str,
        *,
        mechanisms: Iterable[str] = SCRAMS,
        iterations: int = ITERATIONS_MIN,
    ) -> None:
        """Create the user, or replace its password for these mechanisms."""
        for mechanism in mechanisms:
            hash_ = HASHES.get(mechanism)
            if hash_ is None:
                raise InvalidRequest(
                    Code.UNSUPPORTED_SASL_MECHANISM,
                    f"{mechanism!r}: expected one of {', '.join(HASHES)}",
                )
            salt = token_bytes(SALT_LENGTH)
            # A request may change a user once.
            await self._alter_user(
                user,
                alter.AlterUserScramCredentialsRequest(
                    deletions=[],
                    upsertions=[
                        alter.ScramCredentialUpsertion(
                            name=user,
                            mechanism=hash_.code,
                            iterations=iterations,
                            salt=salt,
                            salted_password=hash_.salted(password, salt, iterations),
                        )
                    ],
                ),
            )

    async def delete_user(self, user: str, *, mechanisms: Iterable[str] = ()) -> None:
        """Delete its passwords for these mechanisms; without any: for all that it has."""
        (found,) = await self.users([user])
        for mechanism in list(mechanisms) or found.mechanisms:
            await self._alter_user(
                user,
                alter.AlterUserScramCredentialsRequest(
                    deletions=[
                        alter.ScramCredentialDeletion(name=user, mechanism=HASHES[mechanism].code)
                    ],
                    upsertions=[],
                ),
            )

    async def _alter_user(self, user: str, request: alter.AlterUserScramCredentialsRequest) -> None:
        async def attempt() -> None:
            connection = await self._cluster.anyone()
            response = await connection.call(
                request,
                alter.AlterUserScramCredentialsResponse,
                timeout_ms=self._cluster.timeout_ms,
            )
            for each in response.results:
                check(each.error_code, each.error_message, about=f"user {user!r}")

        await self._cluster.retrying(attempt)
