"""The metrics page over HTTP: one GET, one reply, then the connection is closed.

Always: a request is bounded in size and time, and can only read.
"""

import asyncio
from collections.abc import Awaitable, Callable

from barnabas.system.network import cannot_listen

Page = Callable[[], Awaitable[bytes]]
"""The metrics, in Prometheus' text format."""

REQUEST_BYTES_MAX = 16 * 1024
REQUEST_S_MAX = 5.0
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


async def serve(page: Page, host: str, port: int) -> asyncio.Server:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_S_MAX):
                head = await reader.readuntil(b"\r\n\r\n")
            writer.write(await _reply(page, head))
            async with asyncio.timeout(REQUEST_S_MAX):
                await writer.drain()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
            return  # a client that does not speak HTTP gets no reply
        finally:
            writer.close()

    try:
        return await asyncio.start_server(answer, host or None, port, limit=REQUEST_BYTES_MAX)
    except OSError as error:
        raise cannot_listen(host, port, error) from None


async def _reply(page: Page, head: bytes) -> bytes:
    method, _, rest = head.partition(b" ")
    path = rest.partition(b" ")[0].partition(b"?")[0]
    if method not in (b"GET", b"HEAD"):
        return _response("405 Method Not Allowed", b"only GET\n")
    if path not in (b"/metrics", b"/"):
        return _response("404 Not Found", b"the metrics are at /metrics\n")
    return _response("200 OK", await page())


def _response(status: str, body: bytes) -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
