"""Who sent a request to a coordinator.

In: what the connection knows of the client. Out: a value that travels with the request.
Always: the token of a caller is used for one reply, now or later.
Not here: the requests themselves (wire/messages).
"""

from collections.abc import Callable

from msgspec import Struct

MayDescribe = Callable[[str], bool]
"""Whether a client may know of the topic with this name."""


class Caller(Struct, frozen=True):
    """The sender of a request and its version; `token` finds the connection that waits."""

    token: object
    version: int
    client_id: str
    client_host: str
    connection: str = ""  # the client's address with its port
    may_describe: MayDescribe | None = None  # None: all topics
