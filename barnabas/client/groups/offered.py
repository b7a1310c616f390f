"""Which APIs a broker offers."""

from typing import TYPE_CHECKING

from barnabas.model.errors import KafkaError
from barnabas.wire.apis import APIS

if TYPE_CHECKING:
    from barnabas.client.net import BrokerConnection


def offers(connection: "BrokerConnection", api_key: int) -> bool:
    """Whether this broker supports an API: only Barnabas supports our own APIs."""
    try:
        connection.version_of(APIS[api_key].key)
    except KafkaError:
        return False
    return True
