"""Who sent a request to a coordinator."""

from msgspec import Struct


class Caller(Struct, frozen=True):
    """Who sent a request, and in which version; `token` finds the one who waits for the answer."""

    token: object
    version: int
    client_id: str
    client_host: str
    connection: str = ""  # the address it came from, port and all
