"""A REST catalog for Iceberg, on a catalog in a file; it can lose answers, as networks do."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from typing import Any
from urllib.parse import unquote


class RestCatalog:
    """`faults`: for the next commits: a status that is sent after the commit has been made, or a
    negative one that is sent without making it.
    """

    def __init__(self, directory: Path) -> None:
        from pyiceberg.catalog import load_catalog

        self.behind: Any = load_catalog(
            "behind",
            type="sql",
            uri=f"sqlite:///{directory}/rest.db",
            warehouse=f"file://{directory}/warehouse",
        )
        self.faults: list[int] = []
        self.commits = 0
        self.lock = Lock()  # SQLite answers that it is locked, which is not the catalog's answer

    def answer(self, method: str, parts: list[str], body: Any) -> tuple[int, Any]:
        from pyiceberg.exceptions import (
            CommitFailedException,
            NamespaceAlreadyExistsError,
            NoSuchTableError,
            TableAlreadyExistsError,
        )

        try:
            with self.lock:
                return self._answer(method, parts, body)
        except NoSuchTableError as problem:
            return _error(404, "NoSuchTableException", problem)
        except (NamespaceAlreadyExistsError, TableAlreadyExistsError) as problem:
            return _error(409, "AlreadyExistsException", problem)
        except CommitFailedException as problem:
            return _error(409, "CommitFailedException", problem)

    def _answer(self, method: str, parts: list[str], body: Any) -> tuple[int, Any]:
        if parts == ["config"]:
            return 200, {"defaults": {}, "overrides": {}}
        if parts == ["namespaces"] and method == "POST":
            self.behind.create_namespace(tuple(body["namespace"]))
            return 200, {"namespace": body["namespace"], "properties": {}}
        if len(parts) == 3 and parts[2] == "tables" and method == "POST":
            return 200, _loaded(self._create(parts[1], body))
        if len(parts) == 4 and method == "POST":
            return self._commit((parts[1], parts[3]), body)
        if len(parts) == 4:
            return 200, _loaded(self.behind.load_table((parts[1], parts[3])))
        return _error(404, "NotFound", KeyError("/".join(parts)))

    def _create(self, namespace: str, body: Any) -> Any:
        from pyiceberg.partitioning import PartitionSpec
        from pyiceberg.schema import Schema

        return self.behind.create_table(
            (namespace, body["name"]),
            Schema.model_validate(body["schema"]),
            partition_spec=PartitionSpec.model_validate(body["partition-spec"]),
            properties=body.get("properties") or {},
        )

    def _commit(self, name: tuple[str, str], body: Any) -> tuple[int, Any]:
        from pyiceberg.table import CommitTableRequest

        fault = self.faults.pop(0) if self.faults else 0
        if fault < 0:
            return _error(-fault, "ServiceFailure", OSError("not made"))
        request = CommitTableRequest.model_validate(
            {**body, "identifier": {"namespace": [name[0]], "name": name[1]}}
        )
        table = self.behind.load_table(name)
        done = self.behind.commit_table(table, request.requirements, request.updates)
        self.commits += 1
        if fault:
            return _error(fault, "ServiceFailure", OSError("lost"))
        return 200, json.loads(done.model_dump_json(by_alias=True))


def _loaded(table: Any) -> dict[str, Any]:
    return {
        "metadata-location": table.metadata_location,
        "metadata": json.loads(table.metadata.model_dump_json(by_alias=True)),
        "config": {},
    }


def _error(code: int, kind: str, problem: Exception) -> tuple[int, Any]:
    return code, {"error": {"message": str(problem), "type": kind, "code": code}}


@contextmanager
def running_rest_catalog(directory: Path) -> Iterator[tuple[RestCatalog, str]]:
    catalog = RestCatalog(directory)

    class Answers(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            body = json.loads(self.rfile.read(length) or b"{}")
            path = unquote(self.path.partition("?")[0]).strip("/").split("/")[1:]
            code, found = catalog.answer(self.command, path, body)
            text = json.dumps(found).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = answer

        def log_message(self, *args: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        server.daemon_threads = True
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield catalog, f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
