"""CreateDelegationToken: a token for the client, or for another if the rules allow it."""

from typing import TYPE_CHECKING
from uuid import uuid4

from barnabas.broker.net.dispatch import Call
from barnabas.broker.security.tokens import (
    forget_ended,
    limits_of,
    requester_of,
    secret_of,
    store,
)
from barnabas.keeper.paths import uuid_text
from barnabas.model.errors import Code, InvalidRequest, KafkaError
from barnabas.security.principal import Principal
from barnabas.security.sasl.delegation_tokens import new_token, token_hmac
from barnabas.wire.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker


async def handle(
    broker: "Broker", request: CreateDelegationTokenRequest, call: Call
) -> CreateDelegationTokenResponse:
    try:
        return await _create(broker, request, call)
    except KafkaError as error:
        broker.refused("token not created", call, error)
        return CreateDelegationTokenResponse(error_code=error.code)


async def _create(
    broker: "Broker", request: CreateDelegationTokenRequest, call: Call
) -> CreateDelegationTokenResponse:
    requester, secret = requester_of(call), secret_of(broker)
    owner = requester
    if request.owner_principal_name:
        owner = Principal(request.owner_principal_type or "", request.owner_principal_name)
    if owner != requester and not _may_create_for(broker, owner, call):
        raise InvalidRequest(Code.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
    await forget_ended(broker)
    renewers = tuple(
        Principal(each.principal_type, each.principal_name) for each in request.renewers
    )
    token = new_token(
        uuid_text(uuid4()),
        owner,
        requester,
        renewers,
        request.max_lifetime_ms,
        limits_of(broker),
        broker.clock.wall_ms(),
    )
    await store(broker, token.id, token)
    broker.log.info("token created", token=token.id, owner=str(owner), by=str(requester))
    return CreateDelegationTokenResponse(
        error_code=0,
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
        issue_timestamp_ms=token.issued_ms,
        expiry_timestamp_ms=token.expires_ms,
        max_timestamp_ms=token.max_ms,
        token_id=token.id,
        hmac=token_hmac(secret, token.id),
    )


def _may_create_for(broker: "Broker", owner: Principal, call: Call) -> bool:
    """Without access rules no user may act for another."""
    if broker.authorizer is None:
        return False
    from barnabas.broker.authorization.requester import Requester
    from barnabas.security.acl.rules import AclOperation, AclResourceType

    asked = Requester(broker.authorizer, CreateDelegationTokenRequest.api_key, call)
    return asked.may(AclOperation.CREATE_TOKENS, AclResourceType.USER, str(owner))
