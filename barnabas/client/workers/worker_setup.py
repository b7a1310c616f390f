"""What `@parallel(...)` was given: what a runner needs for one run."""

from collections.abc import Callable
from typing import Any, NamedTuple

from barnabas.client.workers.calls import Opener
from barnabas.client.workers.policy import Policy
from barnabas.client.workers.results import ResultEncoder
from barnabas.config.client import Settings, Value


class WorkerSetup(NamedTuple):
    """`settings` and `options` are those of the client; an option overrides a setting."""

    topics: tuple[str, ...]
    policy: Policy
    handler: Callable[[Any], Any]
    opener: Opener[Any, Any]
    encoder: ResultEncoder
    settings: Settings | None
    options: dict[str, Value]
