"""`barnabas produce`: records from standard input."""

import os
import sys
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import click

from barnabas.cli import exits
from barnabas.cli.formats import raw, unescape
from barnabas.cli.names import complete_topic
from barnabas.cli.options import client_settings, cluster_options
from barnabas.client.consumer.json_lines import from_json
from barnabas.model.errors import Code, InvalidRequest, KafkaError
from barnabas.model.ids import check_topic_name

if TYPE_CHECKING:
    from barnabas.client.blocking.producer import Producer
    from barnabas.client.producer.batches import RecordMetadata
    from barnabas.wire.records import Headers

_CHUNK_SIZE = 1 << 20
_RECORD_SIZE_MAX = 1 << 28
_ERRORS_SHOWN_MAX = 10


class _Input(NamedTuple):
    """How a line of the input becomes a record."""

    key: bytes | None
    key_delimiter: bytes | None
    headers: "Headers"
    as_json: bool
    empty_is_null: bool


@click.command(context_settings={"max_content_width": 100})
@click.argument("topic", shell_complete=complete_topic)
@click.option("-p", "--partition", type=click.IntRange(0), help="[default: by key]")
@click.option("-k", "--key", help="The key of every record.")
@click.option("-K", "--key-delimiter", help="The text between key and value on a line.")
@click.option(
    "-D", "--delimiter", default="\\n", show_default=True, help="The text that ends a record."
)
@click.option(
    "-H",
    "--header",
    "headers",
    metavar="NAME=VALUE",
    multiple=True,
    help="A header of every record; repeat the option for several.",
)
@click.option("-Z", "empty_is_null", is_flag=True, help="Write an empty key or value as null.")
@click.option(
    "-z",
    "--codec",
    type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
    help="[default: none]",
)
@click.option("--acks", type=click.Choice(["all", "1", "0"]), help="[default: all]")
@click.option(
    "-J", "--json", "as_json", is_flag=True, help="Read JSON lines, as consume -J writes."
)
@cluster_options
@click.pass_context
def command(
    ctx: click.Context,
    topic: str,
    partition: int | None,
    key: str | None,
    key_delimiter: str | None,
    delimiter: str,
    headers: tuple[str, ...],
    empty_is_null: bool,
    codec: str | None,
    acks: str | None,
    as_json: bool,
) -> int:
    """Write records to a topic, from lines on standard input.

    Exits with 1 if any record could not be written.
    """
    from barnabas.client.blocking.producer import Producer

    end = _delimiter(delimiter, "-D")
    shape = _Input(
        None if key is None else raw(key),
        None if key_delimiter is None else _delimiter(key_delimiter, "-K"),
        _headers(headers),
        as_json,
        empty_is_null,
    )
    if as_json and (key_delimiter is not None or key is not None):
        raise click.UsageError("-J reads the key from each line: leave out -k and -K")
    try:
        check_topic_name(topic)
    except KafkaError as problem:
        raise click.UsageError(problem.detail) from None
    # The topic limits the size of a record, not this command.
    settings = client_settings(ctx, {"max.request.size": str(_RECORD_SIZE_MAX)})
    if acks is not None:
        settings["acks"] = acks
    if codec is not None:
        settings["compression.type"] = codec
    try:
        opened = Producer(settings)
    except InvalidRequest as problem:  # no request was sent yet: an option is wrong
        raise click.UsageError(problem.detail) from None
    report = _Report()
    with opened as producer:
        _send_all(producer, report, topic, partition, end, shape)
    return report.close()


def _send_all(
    producer: "Producer",
    report: "_Report",
    topic: str,
    partition: int | None,
    end: bytes,
    shape: _Input,
) -> None:
    number = 0
    try:
        for pieces in _pieces(end):
            for piece in pieces:
                number += 1
                key, value, headers, timestamp = _record(piece, number, shape)
                producer.drain()
                producer.send_nowait(
                    topic,
                    value,
                    key=key,
                    headers=headers,
                    partition=partition,
                    timestamp=timestamp,
                    callback=partial(report, number),
                )
    finally:
        producer.flush()  # records before an interrupt or an invalid line are still written


class _Report:
    """Counts the written records, and reports those that were not written."""

    def __init__(self) -> None:
        self.written = 0
        self.failed = 0

    def __call__(
        self, number: int, metadata: "RecordMetadata | None", problem: KafkaError | None
    ) -> None:
        if problem is None:
            self.written += 1
            return
        self.failed += 1
        if self.failed <= _ERRORS_SHOWN_MAX:
            click.echo(f"barnabas: record {number}: {problem.detail}", err=True)

    def close(self) -> int:
        if self.failed:
            click.echo(f"barnabas: {self.failed} records were not written", err=True)
            return exits.FAILURE
        if sys.stderr.isatty():
            click.echo(f"{self.written} records", err=True)
        return exits.OK


def _record(
    piece: bytes, number: int, shape: _Input
) -> "tuple[bytes | None, bytes | None, Headers, int | None]":
    timestamp = None
    headers = shape.headers
    key = shape.key
    value: bytes | None = piece
    if shape.as_json:
        try:
            key, value, own, timestamp = from_json(piece)
        except ValueError as problem:
            raise InvalidRequest(
                Code.INVALID_RECORD,
                f"line {number} is not a record as consume -J writes it: {problem}",
            ) from None
        headers = (*headers, *own)
    elif shape.key_delimiter is not None and shape.key_delimiter in piece:
        key, _, value = piece.partition(shape.key_delimiter)
    if shape.empty_is_null:
        key, value = key or None, value or None
    return key, value, headers, timestamp


def _pieces(end: bytes) -> Iterator[list[bytes]]:
    """Standard input between delimiters, as it comes."""
    descriptor = sys.stdin.fileno()
    rest = b""
    while chunk := os.read(descriptor, _CHUNK_SIZE):
        *whole, rest = (rest + chunk).split(end)
        if len(rest) > _RECORD_SIZE_MAX:
            raise InvalidRequest(
                Code.MESSAGE_TOO_LARGE,
                f"no delimiter within {_RECORD_SIZE_MAX} bytes of input: is -D right?",
            )
        yield whole
    if rest:
        yield [rest]


def _delimiter(text: str, option: str) -> bytes:
    try:
        found = unescape(text)
    except ValueError as problem:
        raise click.UsageError(f"{option} {problem}") from None
    if not found:
        raise click.UsageError(f"{option}: expected at least one character")
    return found


def _headers(texts: tuple[str, ...]) -> "Headers":
    """NAME=VALUE; NAME alone has a null value."""
    found: list[tuple[str, bytes | None]] = []
    for text in texts:
        name, equals, value = text.partition("=")
        if raw(name).decode(errors="replace") != name:
            raise click.UsageError(f"-H {text!r}: the name is not UTF-8")
        found.append((name, raw(value) if equals else None))
    return tuple(found)
