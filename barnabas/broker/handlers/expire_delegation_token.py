"""ExpireDelegationToken: for the owner of a token and its renewers."""

from typing import TYPE_CHECKING

from barnabas.broker.net.dispatch import Call
from barnabas.broker.security.tokens import requester_of, secret_of, store, tokens_of
from barnabas.model.errors import KafkaError
from barnabas.security.sasl.delegation_tokens import by_hmac, expired
from barnabas.wire.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker


async def handle(
    broker: "Broker", request: ExpireDelegationTokenRequest, call: Call
) -> ExpireDelegationTokenResponse:
    now_ms = broker.clock.wall_ms()
    try:
        requester, secret = requester_of(call), secret_of(broker)
        token = by_hmac(tokens_of(broker), secret, bytes(request.hmac))
        changed = expired(token, requester, request.expiry_time_period_ms, now_ms)
        await store(broker, token.id, changed)
    except KafkaError as error:
        broker.refused("token not expired", call, error)
        return ExpireDelegationTokenResponse(error_code=error.code)
    ends_ms = now_ms if changed is None else changed.expires_ms
    return ExpireDelegationTokenResponse(error_code=0, expiry_timestamp_ms=ends_ms)
