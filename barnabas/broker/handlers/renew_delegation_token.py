"""RenewDelegationToken: for the owner of a token and its renewers."""

from typing import TYPE_CHECKING

from barnabas.broker.net.dispatch import Call
from barnabas.broker.security.tokens import limits_of, requester_of, secret_of, store, tokens_of
from barnabas.model.errors import KafkaError
from barnabas.security.sasl.delegation_tokens import by_hmac, renewed
from barnabas.wire.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker


async def handle(
    broker: "Broker", request: RenewDelegationTokenRequest, call: Call
) -> RenewDelegationTokenResponse:
    now_ms = broker.clock.wall_ms()
    try:
        requester, secret = requester_of(call), secret_of(broker)
        token = by_hmac(tokens_of(broker), secret, bytes(request.hmac))
        changed = renewed(token, requester, request.renew_period_ms, limits_of(broker), now_ms)
        await store(broker, token.id, changed)
    except KafkaError as error:
        broker.refused("token not renewed", call, error)
        return RenewDelegationTokenResponse(error_code=error.code)
    return RenewDelegationTokenResponse(error_code=0, expiry_timestamp_ms=changed.expires_ms)
