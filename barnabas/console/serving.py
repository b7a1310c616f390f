"""Runs the console's HTTP server on the asyncio event loop, until it is interrupted."""

import asyncio
import secrets
import socket
from collections.abc import Callable

import uvicorn

from barnabas.config.kinds import Address
from barnabas.console.access import ConsoleAccess
from barnabas.console.application import Application, ConsoleOptions
from barnabas.console.cluster_state import ConsoleCluster
from barnabas.console.pages.routes import all_routes
from barnabas.system.network import cannot_listen

CONNECTIONS_MAX = 500
HEADER_BYTES_MAX = 64 << 10


def console_access(
    address: Address, token: str | None, hosts: tuple[str, ...] = ()
) -> ConsoleAccess:
    names = {"localhost", address.host.lower(), socket.gethostname().lower(), *hosts}
    return ConsoleAccess(secrets.token_bytes(32), token, frozenset(names))


def application(options: ConsoleOptions, access: ConsoleAccess) -> Application:
    """Within the event loop that serves it."""
    settings = options.settings
    if options.by_user:  # never connected: each session has a connection of its own
        settings = {"bootstrap.servers": options.servers}
    return Application(ConsoleCluster(settings), options, access, all_routes())


async def serve(
    address: Address,
    options: ConsoleOptions,
    access: ConsoleAccess,
    on_ready: Callable[[str], None],
) -> None:
    """Until SIGINT or SIGTERM. `on_ready` gets the URL, without the token."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((address.host, address.port))
    except OSError as error:
        listener.close()
        raise cannot_listen(address.host, address.port, error) from None
    listener.listen(CONNECTIONS_MAX)  # a reader of the address may connect at once
    app = application(options, access)
    config = uvicorn.Config(
        app.guarded(),
        lifespan="off",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        limit_concurrency=CONNECTIONS_MAX,
        h11_max_incomplete_event_size=HEADER_BYTES_MAX,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    app.open()
    on_ready(f"http://{Address(address.host, listener.getsockname()[1])}/")
    try:
        await server.serve(sockets=[listener])
    finally:
        await app.close()
        listener.close()


def run_console(
    address: Address,
    options: ConsoleOptions,
    access: ConsoleAccess,
    on_ready: Callable[[str], None],
) -> None:
    try:
        asyncio.run(serve(address, options, access, on_ready))
    except KeyboardInterrupt:  # uvicorn raises it again once it has shut down
        pass
