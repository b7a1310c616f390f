"""Changes: allowed only with --allow-changes, and logged: what, to what, from which address."""

import json
import sys

from barnabas.console.application import Asked
from barnabas.console.sessions import ConsoleSession
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

    asked.state.forget()
    client = asked.request.client
    session: ConsoleSession | None = asked.request.scope.get("barnabas.session")
    entry = {
        "time": iso_time(int(time.time() * 1000)),
        "event": "change",
        "what": what,
        "by": None if client is None else client.host,
        "user": None if session is None else session.user,
        **about,
    }
    print(json.dumps(entry), file=sys.stderr, flush=True)
