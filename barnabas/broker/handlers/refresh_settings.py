"""RefreshSettings: another broker waits until changed settings are applied here."""

from typing import TYPE_CHECKING

from barnabas.broker.net.dispatch import Call
from barnabas.wire.messages.refresh_settings import RefreshSettingsRequest, RefreshSettingsResponse

if TYPE_CHECKING:
    from barnabas.broker.context import ClusterContext


async def handle(
    broker: "ClusterContext", request: RefreshSettingsRequest, call: Call
) -> RefreshSettingsResponse:
    assert broker.cluster is not None
    await broker.cluster.refresh()
    return RefreshSettingsResponse(error_code=0)
