"""`barnabas doctor`: what of this machine would hinder a broker or a pipeline, and the remedy."""

import os
import resource
import shutil
import socket
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec

import click

from barnabas.cli import exits
from barnabas.cli.render import chosen_output, output_option, render
from barnabas.client.tables import Row
from barnabas.model.version import VERSION

FILES_MIN = 65_536
DISK_FREE_MIN = 1 << 30
EXTRAS = {
    "arrow": ("pyarrow",),
    "delta": ("deltalake",),
    "oauth": ("jwt", "cryptography"),
    "schemas": ("fastavro", "google.protobuf"),
    "spark": ("pyspark", "pandas", "pyarrow", "yaml"),
    "tls": ("cryptography",),
    "zookeeper": ("kazoo",),
}
GOOD, NOTE, BAD = "ok", "note", "problem"

Found = tuple[str, str, str]


@click.command(context_settings={"max_content_width": 100})
@click.option(
    "--data", metavar="DIR", default=".", show_default=True, help="The data directory to check."
)
@click.option(
    "--port",
    type=int,
    default=9092,
    show_default=True,
    help="The port that a broker would listen on.",
)
@output_option
def command(data: str, port: int, output: str) -> int:
    """Check this machine: versions, limits, disk, ports, Java, clock; say what to change.

    Exits with 6 if there is a problem.
    """
    checks: tuple[tuple[str, Callable[[], Found]], ...] = (
        ("python", _python),
        ("barnabas", _compiled),
        ("open files", _files),
        ("data directory", lambda: _disk(data)),
        ("memory disk", _memory),
        ("port", lambda: _port(port)),
        ("host name", _name),
        ("clock", _clock),
        ("Java", _java),
        ("extras", _extras),
    )
    rows: list[Row] = []
    for what, check in checks:
        try:
            state, found, remedy = check()
        except OSError as problem:
            state, found, remedy = BAD, str(problem), ""
        rows.append({"check": what, "state": state, "found": found, "remedy": remedy})
    if chosen_output(output) == "table":
        for row in rows:
            mark = {GOOD: "✔", NOTE: "·", BAD: "✘"}[row["state"]]
            click.echo(f"{mark} {row['check']:<15} {row['found']}")
            if row["remedy"]:
                click.echo(f"{'':<18}{row['remedy']}")
    else:
        render(rows, ["check", "state", "found", "remedy"], output)
    return exits.ASSERTION if any(row["state"] == BAD for row in rows) else exits.OK


def _python() -> Found:
    version = ".".join(map(str, sys.version_info[:3]))
    return GOOD, version, ""


def _compiled() -> Found:
    from barnabas.wire import record_loops

    compiled = not str(record_loops.__file__).endswith(".py")
    how = "compiled loops" if compiled else "loops in Python"
    remedy = "" if compiled else "with a C compiler, install again: records are read faster"
    return GOOD if compiled else NOTE, f"{VERSION}, {how}", remedy


def _files() -> Found:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = sys.maxsize if hard == resource.RLIM_INFINITY else hard
    found = f"{soft} (can be raised to {'any number' if limit == sys.maxsize else limit})"
    if limit < FILES_MIN:
        remedy = f"allow {FILES_MIN}: `ulimit -Hn`, or LimitNOFILE= of the systemd unit"
        return NOTE, found, remedy
    return GOOD, found, ""


def _disk(path: str) -> Found:
    where = os.path.abspath(path)
    while not os.path.exists(where):
        where = os.path.dirname(where)
    if not os.access(where, os.W_OK):
        return BAD, f"{where} is not writable", "choose another --data, or change its owner"
    free = shutil.disk_usage(where).free
    kind = next((fs for mount, fs in _mounts() if where.startswith(mount)), "")
    found = f"{where}: {free / 1e9:.1f} GB free{f', {kind}' if kind else ''}"
    if kind in ("nfs", "nfs4", "cifs", "fuse.sshfs"):
        return BAD, found, "use a local disk: syncs of a network file system are not reliable"
    if free < DISK_FREE_MIN:
        return BAD, found, "free some space, or set retention.ms or retention.bytes"
    return GOOD, found, ""


def _mounts() -> Iterator[tuple[str, str]]:
    """Mount points and file systems, the longest first."""
    try:
        with open("/proc/mounts", encoding="utf-8") as file:
            found = [line.split()[1:3] for line in file]
    except OSError:
        return
    for line in sorted(found, key=lambda each: -len(each[0])):
        yield line[0], line[1]


def _memory() -> Found:
    path = "/dev/shm"
    if not os.access(path, os.W_OK):
        return NOTE, "none", "`--ephemeral` and test brokers use the temporary directory"
    return GOOD, f"{shutil.disk_usage(path).free / 1e9:.1f} GB free", ""


def _port(port: int) -> Found:
    with socket.socket() as opened:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            opened.bind(("127.0.0.1", port))
        except OSError as problem:
            remedy = f"stop what listens there, or `barnabas up --listen 127.0.0.1:{port + 1}`"
            return NOTE, f"{port}: {problem.strerror}", remedy
    return GOOD, f"{port} is free", ""


def _name() -> Found:
    name = socket.gethostname()
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        remedy = "set advertised.listeners, or add the name to /etc/hosts"
        return NOTE, f"{name} does not resolve", remedy
    return GOOD, name, ""


def _clock() -> Found:
    now = time.time()
    shown = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now))
    if now < 1_735_689_600:  # 2025: this program did not exist
        return BAD, shown, "set the clock: retention and timestamps depend on it"
    return GOOD, shown, ""


def _java() -> Found:
    found = shutil.which("java")
    home = os.environ.get("JAVA_HOME")
    if home and os.access(os.path.join(home, "bin", "java"), os.X_OK):
        found = os.path.join(home, "bin", "java")
    if found is None:
        return NOTE, "none", "only pipelines on Spark need it: install Java 17"
    return GOOD, found, ""


def _extras() -> Found:
    def is_there(name: str) -> bool:
        try:
            return find_spec(name) is not None
        except ModuleNotFoundError:
            return False

    there = [extra for extra, names in EXTRAS.items() if all(map(is_there, names))]
    missing = [extra for extra in EXTRAS if extra not in there]
    remedy = f"to add: pip install 'barnabas[{','.join(missing)}]'" if missing else ""
    return (NOTE if missing else GOOD), ", ".join(there) or "none", remedy
