"""DescribeDelegationToken: tokens with their secrets, only those that the client may know."""

from typing import TYPE_CHECKING

from barnabas.broker.net.dispatch import Call
from barnabas.broker.security.tokens import requester_of, secret_of, tokens_of
from barnabas.model.errors import KafkaError
from barnabas.security.principal import Principal
from barnabas.security.sasl.delegation_tokens import DelegationToken, token_hmac
from barnabas.wire.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker


def handle(
    broker: "Broker", request: DescribeDelegationTokenRequest, call: Call
) -> DescribeDelegationTokenResponse:
    try:
        requester, secret = requester_of(call), secret_of(broker)
    except KafkaError as error:
        return DescribeDelegationTokenResponse(error_code=error.code, tokens=[])
    owners = None
    if request.owners is not None:
        owners = {Principal(each.principal_type, each.principal_name) for each in request.owners}
    now_ms = broker.clock.wall_ms()
    return DescribeDelegationTokenResponse(
        error_code=0,
        tokens=[
            _described(token, secret)
            for token in tokens_of(broker).values()
            if (owners is None or token.owner in owners)
            and not token.is_over(now_ms)
            and (token.may_change(requester) or _may_describe(broker, token, call))
        ],
    )


def _may_describe(broker: "Broker", token: DelegationToken, call: Call) -> bool:
    if broker.authorizer is None:
        return False
    from barnabas.broker.authorization.requester import Requester
    from barnabas.security.acl.rules import AclOperation, AclResourceType

    asked = Requester(broker.authorizer, DescribeDelegationTokenRequest.api_key, call)
    return asked.may(
        AclOperation.DESCRIBE, AclResourceType.DELEGATION_TOKEN, token.id, quiet=True
    ) or asked.may(AclOperation.DESCRIBE_TOKENS, AclResourceType.USER, str(token.owner), quiet=True)


def _described(token: DelegationToken, secret: str) -> DescribedDelegationToken:
    return DescribedDelegationToken(
        principal_type=token.owner.type,
        principal_name=token.owner.name,
        token_requester_principal_type=token.requester.type,
        token_requester_principal_name=token.requester.name,
        issue_timestamp=token.issued_ms,
        expiry_timestamp=token.expires_ms,
        max_timestamp=token.max_ms,
        token_id=token.id,
        hmac=token_hmac(secret, token.id),
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=each.type, principal_name=each.name)
            for each in token.renewers
        ],
    )
