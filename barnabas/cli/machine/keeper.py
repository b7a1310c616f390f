"""`barnabas keeper`: look at the store that brokers share, in a file or in ZooKeeper.

Always: nothing is changed; no session is opened in a file.
"""

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from barnabas.cli import exits
from barnabas.cli.command_group import NamedCommands
from barnabas.cli.render import chosen_output, output_option, render, write_document
from barnabas.client.tables import Row
from barnabas.keeper.keeper import ROOT, Keeper, Node, NoNode
from barnabas.model.words import printable

DEFAULT_DATA = "barnabas-data"
NODES_MAX = 100_000
POLL_S = 0.2
_SHOWN_MAX = 100

F = TypeVar("F", bound=Callable[..., Any])
Tree = dict[str, Node]


def _store_options(command: F) -> F:
    for option in (
        click.option(
            "--data",
            metavar="DIR",
            help=f"The data directory with keeper.db, or the file. [default: {DEFAULT_DATA}]",
        ),
        click.option("--zookeeper", metavar="HOST:PORT,...", help="Look at this ZooKeeper."),
        click.option(
            "--digest-file",
            metavar="FILE",
            help="A file with USER:PASSWORD, if ZooKeeper requires it.",
        ),
    ):
        command = option(command)
    return command


@click.group(cls=NamedCommands, context_settings={"max_content_width": 100})
def command() -> None:
    """Look at the store that brokers share: topics, options, leaders, live brokers.

    Paths are those of Kafka with ZooKeeper: /brokers/ids, /brokers/topics, /controller, /config,
    /consumers/GROUP/{ids,owners,offsets}.
    """


@command.command("ls")
@click.argument("path", default=ROOT)
@click.option("-R", "--recursive", is_flag=True, help="List the nodes of all levels.")
@_store_options
@output_option
def list_(
    path: str,
    recursive: bool,
    data: str | None,
    zookeeper: str | None,
    digest_file: str | None,
    output: str,
) -> int:
    """List the nodes below PATH."""
    with _opened(data, zookeeper, digest_file) as keeper:
        try:
            tree = _below(keeper, path) if recursive else _children(keeper, path)
        except NoNode:
            return _missing(path)
    rows: list[Row] = [{"path": each, **_row(node)} for each, node in tree.items()]
    render(rows, ["path", "version", "ephemeral", "data"], output)
    return exits.OK


@command.command()
@click.argument("path")
@_store_options
@output_option
def get(
    path: str, data: str | None, zookeeper: str | None, digest_file: str | None, output: str
) -> int:
    """Show the contents of a node."""
    with _opened(data, zookeeper, digest_file) as keeper:
        try:
            node = keeper.get(path)
        except NoNode:
            return _missing(path)
    if chosen_output(output) == "table":
        click.echo(printable(_text(node.data)))
    else:
        write_document({"path": path, **_row(node), "data": _text(node.data)}, output)
    return exits.OK


@command.command()
@click.argument("path", default=ROOT)
@click.option("-c", "--count", type=click.IntRange(1), help="Stop after this many changes.")
@click.option("--timeout", type=click.FloatRange(0), help="Stop after this many seconds.")
@_store_options
def watch(
    path: str,
    count: int | None,
    timeout: float | None,
    data: str | None,
    zookeeper: str | None,
    digest_file: str | None,
) -> int:
    """Print every change at PATH and below, as it happens, until Ctrl-C."""
    deadline = None if timeout is None else time.monotonic() + timeout
    seen = 0
    with _opened(data, zookeeper, digest_file) as keeper:
        before = _whole(keeper, path)
        click.echo(f"watching {len(before)} nodes at {printable(path)}", err=True)
        while deadline is None or time.monotonic() < deadline:
            time.sleep(POLL_S)
            now = _whole(keeper, path)
            for line in _changes(before, now):
                click.echo(line)
                seen += 1
                if seen == count:
                    return exits.OK
            before = now
    return exits.OK


def _changes(before: Tree, now: Tree) -> Iterator[str]:
    for path in sorted(before.keys() | now.keys()):
        old, new = before.get(path), now.get(path)
        shown = printable(path)
        if new is None:
            yield f"deleted  {shown}"
        elif old is None or old.created != new.created:
            kind = " (ephemeral)" if new.owner else ""
            yield f"created  {shown}{kind}  {_short(new.data)}"
        elif old.version != new.version:
            yield f"changed  {shown}  {_short(new.data)}"


@contextmanager
def _opened(data: str | None, zookeeper: str | None, digest_file: str | None) -> Iterator[Keeper]:
    from barnabas.broker.keepers import KEEPER_FILE, open_zookeeper
    from barnabas.keeper.sqlite import SqliteKeeper

    if data is not None and zookeeper is not None:
        raise click.UsageError("--data and --zookeeper exclude each other")
    if zookeeper is not None:
        keeper: Keeper = open_zookeeper(zookeeper, digest_file)
    else:
        path = data or DEFAULT_DATA
        if os.path.isdir(path):
            path = os.path.join(path, KEEPER_FILE)
        if not os.path.exists(path):
            raise click.UsageError(f"{path}: no such file; name it with --data, or --zookeeper")
        keeper = SqliteKeeper(path)
    try:
        yield keeper
    finally:
        keeper.close()


def _children(keeper: Keeper, path: str) -> Tree:
    names = [f"{path.rstrip('/')}/{name}" for name in keeper.children(path)]
    found = keeper.get_many(names)
    return {name: node for name, node in zip(names, found, strict=True) if node is not None}


def _below(keeper: Keeper, path: str) -> Tree:
    tree: Tree = {}
    rest = [path]
    while rest and len(tree) < NODES_MAX:
        try:
            found = _children(keeper, rest.pop())
        except NoNode:
            if not tree:
                raise
            continue
        tree |= found
        rest += found
    return dict(sorted(tree.items()))


def _whole(keeper: Keeper, path: str) -> Tree:
    """The node itself too; nothing while it does not exist."""
    try:
        return {path: keeper.get(path), **_below(keeper, path)}
    except NoNode:
        return {}


def _row(node: Node) -> Row:
    return {"version": node.version, "ephemeral": bool(node.owner), "data": _short(node.data)}


def _text(data: bytes) -> str:
    try:
        return json.dumps(json.loads(data), ensure_ascii=False)
    except ValueError:
        return data.decode("utf-8", "backslashreplace")


def _short(data: bytes) -> str:
    text = printable(data[: 4 * _SHOWN_MAX].decode("utf-8", "backslashreplace"))
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}... ({len(data)} bytes)"


def _missing(path: str) -> int:
    click.echo(f"barnabas: there is no node {printable(path)}", err=True)
    return exits.NOT_FOUND
