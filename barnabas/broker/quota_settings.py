"""Creates the quotas of a broker with its first limit, and drops them with its last.

A broker without quotas has none of their code (broker/security/quotas.py).
"""

from typing import TYPE_CHECKING

from barnabas.keeper.paths import QUOTA_KINDS, QUOTAS

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker


def quota_configured(broker: "Broker", kind: str, name: str) -> None:
    """The settings of an entity are known, or have changed."""
    if kind not in QUOTA_KINDS:
        return
    if broker.quotas is None:
        if QUOTAS.isdisjoint(broker.catalog.entities.get((kind, name), ())):
            return
        from barnabas.broker.security.quotas import ClientQuotas

        broker.quotas = ClientQuotas(broker)
        broker.dispatcher.forget_routes()
    broker.quotas.configured(kind, name)
    if not broker.quotas.limits:
        broker.quotas.stop()
        broker.quotas = None
        broker.dispatcher.forget_routes()
