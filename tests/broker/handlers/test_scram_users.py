"""AlterUserScramCredentials and DescribeUserScramCredentials: codes as Kafka's, and no secrets."""

from pathlib import Path

import pytest

from barnabas.keeper.paths import USERS, entity_config
from barnabas.model.errors import Code
from barnabas.security.sasl.client_login import AuthenticationFailed
from barnabas.security.sasl.credentials import HASHES
from barnabas.security.sasl.mechanism import SCRAM_SHA_256, SCRAM_SHA_512
from barnabas.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from barnabas.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from tests.broker.running import Running, running_broker
from tests.broker.security.logging_in import PASSWORD, SETTINGS, log_in
from tests.waiting import eventually

LISTENERS = {
    **SETTINGS,
    "listeners": "SASL_PLAINTEXT://127.0.0.1:9092,PLAINTEXT://127.0.0.1:9093",
    "inter.broker.listener.name": "SASL_PLAINTEXT",
}
SALT = b"a salt of this user"


def upsertion(
    user: str, mechanism: int = 1, iterations: int = 4096, password: str = PASSWORD
) -> ScramCredentialUpsertion:
    hash_ = HASHES[SCRAM_SHA_256 if mechanism != 2 else SCRAM_SHA_512]
    return ScramCredentialUpsertion(
        name=user,
        mechanism=mechanism,
        iterations=iterations,
        salt=SALT,
        salted_password=hash_.salted(password, SALT, max(1, iterations)),
    )


async def alter(
    run: Running, *changes: ScramCredentialUpsertion | ScramCredentialDeletion
) -> dict[str, int]:
    response = await run.ask(
        AlterUserScramCredentialsRequest(
            deletions=[each for each in changes if isinstance(each, ScramCredentialDeletion)],
            upsertions=[each for each in changes if isinstance(each, ScramCredentialUpsertion)],
        ),
        AlterUserScramCredentialsResponse,
    )
    return {each.user: each.error_code for each in response.results}


async def describe(run: Running, *users: str) -> dict[str, int | dict[int, int]]:
    response = await run.ask(
        DescribeUserScramCredentialsRequest(users=[UserName(name=each) for each in users]),
        DescribeUserScramCredentialsResponse,
    )
    assert not response.error_code
    return {
        each.user: each.error_code or {c.mechanism: c.iterations for c in each.credential_infos}
        for each in response.results
    }


@pytest.mark.parametrize("user", ["alice", "a,b=c", "ü/☃", "..", "a b+%*"])
async def test_a_user_that_is_made_can_log_in_until_it_is_deleted(
    tmp_path: Path, user: str
) -> None:
    async with running_broker(tmp_path, LISTENERS) as run:
        # The connection comes by the listener that was opened last, which has no login.
        assert await alter(run, upsertion(user, 2, 8192)) == {user: 0}
        assert await describe(run) == {user: {2: 8192}}
        assert run.keeper.exists(entity_config(USERS, user))
        assert await alter(run, ScramCredentialDeletion(name=user, mechanism=2)) == {user: 0}
        assert await describe(run) == {}
        assert await describe(run, user) == {user: Code.RESOURCE_NOT_FOUND}


async def test_a_new_password_holds_for_the_next_login(tmp_path: Path) -> None:
    async with running_broker(tmp_path, SETTINGS) as run:
        await log_in(run, run.wire, "PLAIN")
        await alter(run, upsertion("alice"))
        await log_in(run, run.connect())
        await alter(run, upsertion("alice", password="another"))
        with pytest.raises(AuthenticationFailed):
            await log_in(run, run.connect())
        await log_in(run, run.connect(), password="another")
        await alter(run, ScramCredentialDeletion(name="alice", mechanism=1))
        with pytest.raises(AuthenticationFailed):
            await log_in(run, run.connect(), password="another")


async def test_changes_that_kafka_refuses_are_refused_alike(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as run:
        assert await alter(
            run,
            upsertion("few", iterations=4095),
            upsertion("many", iterations=16_385),
            upsertion("", 1),
            upsertion("odd", 3),
            upsertion("twice", 1),
            upsertion("twice", 2),
            ScramCredentialDeletion(name="nobody", mechanism=1),
            ScramCredentialDeletion(name="absent", mechanism=1),
            upsertion("absent"),
            ScramCredentialDeletion(name="unknown", mechanism=0),
            upsertion("good"),
        ) == {
            "few": Code.UNACCEPTABLE_CREDENTIAL,
            "many": Code.UNACCEPTABLE_CREDENTIAL,
            "": Code.UNACCEPTABLE_CREDENTIAL,
            "odd": Code.UNSUPPORTED_SASL_MECHANISM,
            "twice": Code.DUPLICATE_RESOURCE,
            "nobody": Code.RESOURCE_NOT_FOUND,
            "absent": Code.RESOURCE_NOT_FOUND,  # of two changes, the first
            "unknown": Code.UNSUPPORTED_SASL_MECHANISM,
            "good": 0,
        }
        assert await describe(run) == {"good": {1: 4096}}
        assert await describe(run, "good", "bad", "twice", "twice") == {
            "good": {1: 4096},
            "bad": Code.RESOURCE_NOT_FOUND,
            "twice": Code.DUPLICATE_RESOURCE,
        }


async def test_salts_and_salted_passwords_of_other_lengths_are_refused(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as run:
        short = ScramCredentialUpsertion(
            name="alice", mechanism=1, iterations=4096, salt=SALT, salted_password=b"x"
        )
        unsalted = ScramCredentialUpsertion(
            name="bob", mechanism=1, iterations=4096, salt=b"", salted_password=b"x" * 32
        )
        assert set((await alter(run, short, unsalted)).values()) == {Code.UNACCEPTABLE_CREDENTIAL}


async def test_users_survive_a_restart_and_their_credentials_are_not_logged(
    tmp_path: Path,
) -> None:
    async with running_broker(tmp_path) as run:
        await alter(run, upsertion("alice"))
        await eventually(lambda: "user altered" in run.log.getvalue())
        keeper = run.keeper
        stored = keeper.get(entity_config(USERS, "alice")).data.decode()
        lines = run.log.getvalue()
        assert "stored_key=" in stored
        assert "stored_key" not in lines
    async with running_broker(tmp_path / "again", keeper=keeper) as run:
        assert await describe(run) == {"alice": {1: 4096}}
