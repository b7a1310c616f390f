"""A schema registry of one schema and the files it imports, for tests."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

GUID = "89791762-2336-4186-9674-299b90a802e2"  # of the schema


@contextmanager
def running_registry(
    schema: str,
    number: int,
    subject: str,
    *,
    serialized: str | None = None,
    imports: Mapping[str, str] | None = None,
    kind: str | None = None,
) -> Iterator[str]:
    """`serialized`: what it answers with for format=serialized; `imports`: the same, by name."""
    others = dict(imports or {})
    references = [{"name": name, "subject": name, "version": 1} for name in others]

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path, _, query = self.path.partition("?")
            text = schema if query != "format=serialized" or serialized is None else serialized
            body = {"schema": text, "id": number, "references": references}
            if kind is not None:  # registries leave it out for Avro
                body["schemaType"] = kind
            known = {
                f"/schemas/ids/{number}": body,
                f"/schemas/guids/{GUID}": body,
                f"/subjects/{subject}/versions/latest": body,
            }
            for name, other in others.items():
                known[f"/subjects/{name}/versions/1"] = {"schema": other}
            self.send_response(200 if path in known else 404)
            self.end_headers()
            self.wfile.write(json.dumps(known.get(path, {})).encode())

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
