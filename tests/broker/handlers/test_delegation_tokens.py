"""Delegation tokens on a running broker: who gets one, and what can be done with it."""

from base64 import b64encode
from pathlib import Path

import pytest

from barnabas.config.broker_access import STANDARD_AUTHORIZER
from barnabas.model.errors import Code
from barnabas.security.acl.rules import (
    AclOperation,
    AclResourceType,
    AclRule,
    Permission,
    ResourcePattern,
)
from barnabas.security.sasl.client_login import AuthenticationFailed, ClientLogin, SaslLogin
from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from barnabas.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from barnabas.wire.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from barnabas.wire.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from tests.broker.running import Running, Wire, running_broker
from tests.broker.security.logging_in import SETTINGS, log_in

WITH_TOKENS = {**SETTINGS, "delegation.token.secret.key": "canary-secret"}
BOB = CreatableRenewers(principal_type="User", principal_name="bob")


async def create(
    run: Running, wire: Wire | None = None, owner: str | None = None
) -> CreateDelegationTokenResponse:
    return await run.ask(
        CreateDelegationTokenRequest(
            owner_principal_type=owner and "User",
            owner_principal_name=owner,
            renewers=[BOB],
            max_lifetime_ms=-1,
        ),
        CreateDelegationTokenResponse,
        wire=wire,
    )


async def log_in_by_token(run: Running, wire: Wire, id_: str, hmac: bytes) -> ClientLogin:
    login = ClientLogin(
        SaslLogin("SCRAM-SHA-256", id_, b64encode(hmac).decode(), by_token=True), "nonce"
    )
    request: ProtocolMessage | None = login.first()
    while request is not None:
        request = login.next(await run.ask(request, ProtocolMessage, wire=wire))
    return login


async def test_a_token_logs_in_as_its_owner_until_it_is_expired(tmp_path: Path) -> None:
    async with running_broker(tmp_path, WITH_TOKENS) as run:
        await log_in(run, run.wire, "PLAIN")
        made = await create(run)
        assert made.error_code == 0
        assert (made.principal_name, made.token_requester_principal_name) == ("alice", "alice")
        assert made.max_timestamp_ms - made.issue_timestamp_ms == 604_800_000
        wire = run.connect()
        login = await log_in_by_token(run, wire, made.token_id, made.hmac)
        assert 86_000_000 < login.lifetime_ms <= 86_400_000
        (connection,) = (each for each in run.broker.connections if each._stream is wire)
        assert str(connection.principal) == "User:alice"
        # A token is no permission to make another one.
        assert (await create(run, wire)).error_code == Code.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        expired = await run.ask(
            ExpireDelegationTokenRequest(hmac=made.hmac, expiry_time_period_ms=-1),
            ExpireDelegationTokenResponse,
        )
        assert expired.error_code == 0
        with pytest.raises(AuthenticationFailed):
            await log_in_by_token(run, run.connect(), made.token_id, made.hmac)
        assert run.keeper.children("/config/delegation-tokens") == []
        assert "canary" not in run.log.getvalue()


async def test_a_token_is_no_user_and_a_user_is_no_token(tmp_path: Path) -> None:
    async with running_broker(tmp_path, WITH_TOKENS) as run:
        await log_in(run, run.wire, "PLAIN")
        made = await create(run)
        with pytest.raises(AuthenticationFailed):
            await log_in_by_token(run, run.connect(), made.token_id, b"x" * 64)
        with pytest.raises(AuthenticationFailed):
            await log_in(
                run, run.connect(), user=made.token_id, password=b64encode(made.hmac).decode()
            )


async def test_only_owner_and_renewers_see_and_change_a_token(tmp_path: Path) -> None:
    async with running_broker(tmp_path, WITH_TOKENS) as run:
        await log_in(run, run.wire, "PLAIN")
        made = await create(run)
        bob = run.connect()
        await log_in(run, bob, "PLAIN", "bob", "brush")
        own = await create(run, bob)

        async def seen(wire: Wire, *owners: str) -> set[str]:
            request = DescribeDelegationTokenRequest(
                owners=[
                    DescribeDelegationTokenOwner(principal_type="User", principal_name=each)
                    for each in owners
                ]
                if owners
                else None
            )
            answer = await run.ask(request, DescribeDelegationTokenResponse, wire=wire)
            return {each.token_id for each in answer.tokens}

        assert await seen(run.wire) == {made.token_id}
        assert await seen(bob) == {made.token_id, own.token_id}
        assert await seen(bob, "alice") == {made.token_id}
        assert await seen(bob, "nobody") == set()
        renew = RenewDelegationTokenRequest(hmac=made.hmac, renew_period_ms=1_000)
        assert (await run.ask(renew, RenewDelegationTokenResponse, wire=bob)).error_code == 0
        renew = RenewDelegationTokenRequest(hmac=own.hmac, renew_period_ms=1_000)
        answer = await run.ask(renew, RenewDelegationTokenResponse)
        assert answer.error_code == Code.DELEGATION_TOKEN_OWNER_MISMATCH
        renew = RenewDelegationTokenRequest(hmac=b"x", renew_period_ms=1_000)
        answer = await run.ask(renew, RenewDelegationTokenResponse)
        assert answer.error_code == Code.DELEGATION_TOKEN_NOT_FOUND


async def test_a_token_for_another_needs_a_rule(tmp_path: Path) -> None:
    async with running_broker(tmp_path, WITH_TOKENS) as run:
        await log_in(run, run.wire, "PLAIN")
        answer = await create(run, owner="bob")
        assert answer.error_code == Code.DELEGATION_TOKEN_AUTHORIZATION_FAILED


async def test_rules_let_a_user_make_and_see_tokens_of_another(tmp_path: Path) -> None:
    settings = {**WITH_TOKENS, "authorizer.class.name": STANDARD_AUTHORIZER}
    async with running_broker(tmp_path, settings) as run:
        await log_in(run, run.wire, "PLAIN")
        assert run.broker.authorizer is not None

        def allow(operation: AclOperation) -> None:
            resource = ResourcePattern(AclResourceType.USER, "User:bob")
            rule = AclRule(resource, "User:alice", "*", operation, Permission.ALLOW)
            assert run.broker.authorizer is not None
            run.broker.authorizer.decisions.load([rule])

        allow(AclOperation.DESCRIBE_TOKENS)
        answer = await create(run, owner="bob")
        assert answer.error_code == Code.DELEGATION_TOKEN_AUTHORIZATION_FAILED
        allow(AclOperation.CREATE_TOKENS)
        answer = await create(run, owner="bob")
        assert answer.error_code == 0
        assert (answer.principal_name, answer.token_requester_principal_name) == ("bob", "alice")
        bob = run.connect()
        await log_in(run, bob, "PLAIN", "bob", "brush")
        own = await create(run, bob)
        every = DescribeDelegationTokenRequest(owners=None)
        seen = await run.ask(every, DescribeDelegationTokenResponse)
        assert {each.token_id for each in seen.tokens} == {answer.token_id}
        allow(AclOperation.DESCRIBE_TOKENS)
        seen = await run.ask(every, DescribeDelegationTokenResponse)
        assert {each.token_id for each in seen.tokens} == {answer.token_id, own.token_id}


async def test_tokens_are_refused_without_a_secret_and_without_a_login(tmp_path: Path) -> None:
    async with running_broker(tmp_path, SETTINGS) as run:
        await log_in(run, run.wire, "PLAIN")
        assert (await create(run)).error_code == Code.DELEGATION_TOKEN_AUTH_DISABLED
    async with running_broker(tmp_path / "b", {"delegation.token.secret.key": "x"}) as run:
        assert (await create(run)).error_code == Code.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
