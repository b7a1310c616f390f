"""Sentences about imports in pages and docstrings, checked on fresh processes.

CLAIMS has each sentence about when a module is imported, and what a process must not load.
OTHER_SENTENCES has the files that speak of other imports.
"""

import ast
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest

import barnabas.sync
from tests.waiting import WAIT_S

ROOT = Path(__file__).resolve().parents[2]
CLUSTER = (
    "barnabas.broker.cluster", "barnabas.broker.controller", "barnabas.broker.replicas",
    "barnabas.cli.brokers.forked", "barnabas.cli.brokers.supervisor",
    "barnabas.cli.brokers.up_cluster", "barnabas.controller", "barnabas.keeper.controller_paths",
    "barnabas.keeper.sqlite_session", "barnabas.keeper.zookeeper", "barnabas.replication.follower",
    "barnabas.replication.leader", "barnabas.replication.state",
)  # fmt: skip
TRANSACTIONS = (
    "barnabas.broker.transactions", "barnabas.coordinators.transactions",
    "barnabas.log.transactions.append", "barnabas.log.transactions.verification",
)  # fmt: skip
SHARE = ("barnabas.broker.share", "barnabas.coordinators.share")
STREAMS = (
    "barnabas.broker.groups.internal_topics", "barnabas.coordinators.groups.streams",
    "barnabas.wire.messages.streams_group_heartbeat",
)  # fmt: skip
DELAY = ("barnabas.broker.delivery_delay", "barnabas.log.visible_end")
GROUPS = ("barnabas.broker.groups", "barnabas.coordinators")
OTHER_COMMANDS = tuple(f"barnabas.cli.{name}" for name in ("demo", "produce", "topic", "group"))
CONSOLE = ("barnabas.console", "jinja2", "starlette", "uvicorn")
UP, HELP, PACKAGE, PIPELINE = "up", "help", "import barnabas", "import barnabas.pipeline"
PLAIN = "up, with records and a group"


class Claim(NamedTuple):
    """A sentence, and the modules that the process it speaks of must not load."""

    file: str
    words: str
    process: str
    without: tuple[str, ...]


CLAIMS = [
    Claim("barnabas/console/__init__.py", "imported by a broker", PLAIN, CONSOLE),
    Claim("barnabas/console/__init__.py", "or by a client", PACKAGE, CONSOLE),
    Claim(
        "docs/adr/0022-a-lone-broker-runs-no-cluster-code.md", "None of it is imported", UP, CLUSTER
    ),
    Claim(
        "docs/adr/0049-a-program-beside-the-brokers-runs-managed-lakes.md",
        "a broker imports neither Spark nor pyarrow nor a catalog",
        PLAIN,
        ("pyspark", "pyarrow", "pyiceberg", "deltalake", "barnabas.pipeline"),
    ),
    Claim(
        "docs/adr/0050-delay-delivery-at-the-end-that-readers-see.md",
        "the modules are not imported",
        PLAIN,
        DELAY,
    ),
    Claim("barnabas/broker/share/__init__.py", "never imports any of it", PLAIN, SHARE),
    Claim(
        "barnabas/broker/authorization/share_records.py", "imports none of their code", PLAIN, SHARE
    ),
    Claim("docs/QUEUES.md", "without share groups imports none of this", PLAIN, SHARE),
    Claim("docs/GROUPS.md", "a broker without streams groups imports none of it", PLAIN, STREAMS),
    Claim(
        "barnabas/coordinators/groups/streams/__init__.py",
        "without streams groups never imports any of it",
        PLAIN,
        STREAMS,
    ),
    Claim(
        "barnabas/coordinators/groups/state.py", "imported with the first of them", PLAIN, STREAMS
    ),
    Claim("docs/ARCHITECTURE.md", "imports none of this", UP, CLUSTER),
    Claim("docs/ARCHITECTURE.md", "A broker without groups never imports any of it", UP, GROUPS),
    Claim(
        "barnabas/broker/groups/coordination.py",
        "without groups never imports any of it",
        UP,
        GROUPS,
    ),
    Claim(
        "barnabas/broker/transactions/__init__.py",
        "without transactions never imports any of it",
        PLAIN,
        TRANSACTIONS,
    ),
    Claim(
        "docs/adr/0042-tls-behind-the-stream-port.md",
        "a broker without TLS imports none of it",
        PLAIN,
        ("barnabas.system.tls", "barnabas.broker.security.tls_listener"),
    ),
    Claim(
        "barnabas/broker/security/__init__.py",
        "Nothing here is imported by a broker that does not use it",
        PLAIN,
        ("barnabas.broker.security", "barnabas.security.sasl"),
    ),
    Claim(
        "barnabas/broker/authorization/__init__.py",
        "Nothing here is imported by a broker without an authorizer",
        PLAIN,
        ("barnabas.broker.authorization", "barnabas.security.acl"),
    ),
    Claim(
        "barnabas/wire/checksum.py",
        "Only its extension module is needed",
        UP,
        ("crc32c", "email", "importlib.metadata"),
    ),
    Claim(
        "docs/adr/0004-write-log-lines-without-a-library.md",
        "100 ms of imports",
        UP,
        ("structlog",),
    ),
    Claim(
        "barnabas/broker/metrics.py",
        "counting needs no imports",
        UP,
        ("prometheus_client", "barnabas.broker.metrics_http"),
    ),
    Claim(
        "barnabas/wire/apis.py",
        "imported when first asked for",
        UP,
        ("barnabas.wire.messages", "barnabas.wire.decoder"),
    ),
    Claim(
        "barnabas/config/kafka_options.py",
        "not at start",
        UP,
        ("barnabas.config.kafka_options", "barnabas.config.kafka_table"),
    ),
    Claim("barnabas/config/option.py", "only ever needed to word an error", UP, ("difflib",)),
    Claim("barnabas/cli/__init__.py", "imported only when it is used", UP, OTHER_COMMANDS),
    Claim(
        "barnabas/cli/app.py",
        "imported when the command is used",
        HELP,
        (*OTHER_COMMANDS, "barnabas.cli.up"),
    ),
    Claim("barnabas/__init__.py", "imported when it is first used", PACKAGE, ("barnabas.client",)),
    Claim(
        "barnabas/pipeline/__init__.py",
        "Nothing in this package is imported before Spark or a user needs it",
        UP,
        ("barnabas.pipeline", "pyspark"),
    ),
    Claim("barnabas/pipeline/__init__.py", "pyspark is half a gigabyte", PIPELINE, ("pyspark",)),
]

# Not about when a part of Barnabas is loaded.
OTHER_SENTENCES = {
    "docs/adr/0014-compaction-runs-in-its-own-process.md",  # what another design would import
    "docs/adr/0028-fork-the-brokers-of-one-machine.md",  # what forking saves; test_forked.py
    "docs/adr/0033-compile-the-connection-not-the-coordinator.md",  # the time of a compiled module
    "docs/BENCHMARKS.md",  # the time of imports
    "barnabas/cli/brokers/forked.py",
    "barnabas/console/pages/routes.py",  # pages of the console
    "barnabas/pipeline/formats/protobuf.py",  # imports of .proto files
    "barnabas/pipeline/formats/registry.py",
}

_IMPORTS = re.compile(r"\bimport(s|ed|ing)\b")


@cache
def loaded(process: str) -> frozenset[str]:
    """The modules that it imports from its first instruction to its last."""
    command = [sys.executable, "-X", "importtime"]
    if process in (UP, PLAIN):
        command += ["-m", "barnabas", "up", "--ephemeral", "--listen", "127.0.0.1:0"]
    elif process == HELP:
        command += ["-m", "barnabas", "--help"]
    else:
        command += ["-c", process]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        if process in (UP, PLAIN):
            ready = running.stdout.readline().decode()
            assert "ready" in ready
            if process == PLAIN:
                _use(ready.split(" on ")[1].split()[0])
            running.send_signal(signal.SIGTERM)
        _, told = running.communicate(timeout=WAIT_S)
        assert running.returncode == 0
    return frozenset(
        line.rpartition("|")[2].strip()
        for line in told.decode().splitlines()
        if line.startswith("import time:")
    )


def _use(servers: str) -> None:
    """Records of an idempotent producer, read by a group of committed records."""
    with (
        barnabas.sync.Admin(bootstrap_servers=servers) as admin,
        barnabas.sync.Producer(bootstrap_servers=servers) as producer,
        barnabas.sync.Consumer(
            "t",
            bootstrap_servers=servers,
            group_id="g",
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        ) as consumer,
    ):
        admin.create_topic("t")
        producer.send("t", b"1")
        assert next(iter(consumer)).value == b"1"
        consumer.commit()


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: f"{claim.file}: {claim.words}")
def test_a_process_loads_no_more_than_its_page_says(claim: Claim) -> None:
    text = " ".join((ROOT / claim.file).read_text().split())
    assert claim.words in text, "the sentence has changed: change what is checked here"
    modules = loaded(claim.process)
    assert "barnabas.model.version" in modules
    too_much = [
        module
        for module in sorted(modules)
        if any(module == each or module.startswith(f"{each}.") for each in claim.without)
    ]
    assert not too_much


def test_modules_that_must_not_be_loaded_exist() -> None:
    """A module that was renamed would never be loaded by its old name."""
    names = {name for claim in CLAIMS for name in claim.without if name.startswith("barnabas.")}
    assert [name for name in sorted(names) if find_spec(name) is None] == []


def test_every_sentence_about_imports_is_checked() -> None:
    """Of pages, without the code in them, and of docstrings."""
    said = {file for file, text in _prose() if _IMPORTS.search(text)}
    checked = {claim.file for claim in CLAIMS if "import" in claim.words}
    assert said == checked | OTHER_SENTENCES


def _prose() -> Iterator[tuple[str, str]]:
    for page in (*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"):
        text = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(), flags=re.DOTALL)
        yield str(page.relative_to(ROOT)), text
    for module in (ROOT / "barnabas").rglob("*.py"):
        text = module.read_text()
        if not _IMPORTS.search(text):
            continue  # to parse all takes a second
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield str(module.relative_to(ROOT)), ast.get_docstring(node) or ""
