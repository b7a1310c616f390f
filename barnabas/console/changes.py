"""Changes: allowed only with --allow-changes, and logged: what, to what, from which address."""

import json
import sys

from barnabas.console.application import Asked
from barnabas.model.errors import Code, InvalidRequest
from barnabas.model.times import iso_time


def check_allowed(asked: Asked) -> None:
    if not asked.options.allow_changes:
        raise InvalidRequest(
            Code.POLICY_VIOLATION,
            "this console only looks: start it with --allow-changes to change anything",
        )


def changed(asked: Asked, what: str, **about: object) -> None:
    """One line on standard error."""
    import time

    client = asked.request.client
    entry = {
        "time": iso_time(int(time.time() * 1000)),
        "event": "change",
        "what": what,
        "by": None if client is None else client.host,
        **about,
    }
    print(json.dumps(entry), file=sys.stderr, flush=True)
