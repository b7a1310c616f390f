"""A schema registry of one schema, for tests."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread


@contextmanager
def running_registry(schema: str, number: int, subject: str) -> Iterator[str]:
    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = (f"/schemas/ids/{number}", f"/subjects/{subject}/versions/latest")
            body = json.dumps({"schema": schema, "id": number}).encode()
            self.send_response(200 if self.path in known else 404)
            self.end_headers()
            self.wfile.write(body if self.path in known else b"{}")

        def log_message(self, *_: object) -> None:
            """Quiet."""

    server = HTTPServer(("127.0.0.1", 0), Answers)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
