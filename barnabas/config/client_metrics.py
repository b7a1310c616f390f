"""Every option of a subscription to metrics of clients.

Subscriptions are kept and described as Kafka does. No client is asked for its metrics: Barnabas
does not offer the requests by which clients push them.
"""

from collections.abc import Mapping

from barnabas.config.kinds import ConfigType, Int, Text
from barnabas.config.option import Option, Scope, invalid
from barnabas.model.errors import Code, InvalidRequest

INTERVAL_MS_MIN, INTERVAL_MS_MAX = 100, 3_600_000
MATCHED = (
    "client_id", "client_instance_id", "client_software_name", "client_software_version",
    "client_source_address", "client_source_port",
)  # fmt: skip


class NameList(Text):
    """Names between commas; replaced as a whole, as in Kafka."""

    __slots__ = ()
    type = ConfigType.LIST


def _option(name: str, kind: Int | NameList, default: int | str, doc: str) -> Option[int | str]:
    return Option(
        name=name,
        kind=kind,
        default=default,
        scope=Scope.CLIENT_METRICS,
        needs_restart=False,
        doc=f"{doc} No effect: Barnabas does not collect metrics of clients.",
    )


ALL = {
    option.name: option
    for option in (
        _option("interval.ms", Int(), 300_000, "How often a client pushes its metrics."),
        _option("match", NameList(), "", "Which clients push them: NAME=PATTERN between commas."),
        _option("metrics", NameList(), "", "How the names of the metrics begin; `*`: all."),
    )
}


def check(settings: Mapping[str, str]) -> None:
    """Kafka's bounds, and its codes."""
    interval = settings.get("interval.ms")
    if interval is not None and not INTERVAL_MS_MIN <= int(interval) <= INTERVAL_MS_MAX:
        raise InvalidRequest(
            Code.INVALID_REQUEST,
            f"client metrics option interval.ms = {interval}: expected {INTERVAL_MS_MIN} to"
            f" {INTERVAL_MS_MAX}",
        )
    for pattern in filter(None, settings.get("match", "").split(",")):
        name, equals, _ = pattern.partition("=")
        if not equals or name.strip() not in MATCHED:
            raise invalid(
                f"client metrics option match = {pattern[:100]!r}: expected NAME=PATTERN with a"
                f" name of {', '.join(MATCHED)}"
            )
