"""`barnabas log`: dump, verify and repair the files of a log.

Always: `dump` and `verify` change nothing; `repair` leaves the damaged files beside the new ones
and touches no directory that a broker has open.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from barnabas.cli import exits
from barnabas.cli.command_group import NamedCommands
from barnabas.cli.render import chosen_output, output_option, render
from barnabas.client.tables import Row, table
from barnabas.log.directory.checkpoints import (
    CLEAN_SHUTDOWN,
    HIGH_WATERMARK,
    CorruptCheckpoint,
    decode_offsets,
)
from barnabas.log.recovery import inspection as survey
from barnabas.log.recovery.inspection import FileProblem, InspectedBatch
from barnabas.model.ids import TopicPartition
from barnabas.system.disk import LOCK_FILE, DirectoryLock, SystemDisk
from barnabas.wire.batch import CODEC_MASK, CONTROL, TRANSACTIONAL
from barnabas.wire.compression import Codec

_DIRECTORY = click.Path(exists=True, file_okay=False)
_COLUMNS = (
    "position",
    "size",
    "first",
    "last",
    "records",
    "codec",
    "time",
    "epoch",
    "producer",
    "notes",
)
_SHOWN_MAX = 80


@click.group(cls=NamedCommands, context_settings={"max_content_width": 100})
def command() -> None:
    """Look into the files of a log: dump, verify, repair.

    DIR is a partition's directory, or a data directory: then all partitions in it.
    """


@command.command()
@click.argument("directory", metavar="DIR", type=_DIRECTORY)
@click.option("--records", is_flag=True, help="Also show the records of each batch.")
@output_option
def dump(directory: str, records: bool, output: str) -> int:
    """Show every batch, segment by segment; then the high watermark and the log end."""
    output = chosen_output(output)
    disk = SystemDisk()
    for partition in _partitions(directory):
        log_end = 0
        for base in survey.segments(disk, partition):
            path = survey.path_of(partition, base)
            file = disk.open(path)
            try:
                rows = [_row(path, seen) for seen in survey.batches(file)]
                log_end = max([base, log_end, *(row["last"] + 1 for row in rows if "last" in row)])
                if output == "table":
                    click.echo(f"{path}: {file.size()} bytes, {len(rows)} batches")
                    click.echo(table(rows, _COLUMNS), nl=False)
                else:
                    render(rows, ("path", *_COLUMNS), output)
                if records:
                    _dump_records(disk, path, output)
            finally:
                file.close()
        if output == "table":
            click.echo(f"{partition}: {_high_watermark(disk, partition)}, log end {log_end}")
    return exits.OK


def _high_watermark(disk: SystemDisk, partition: str) -> str:
    """As it was written last: a broker writes it from time to time, and when it stops."""
    data, at = _named(partition)
    path = os.path.join(data, HIGH_WATERMARK)
    try:
        found = decode_offsets(disk.read_file(path)).get(at)
    except (OSError, CorruptCheckpoint):
        found = None
    return "no high watermark written yet" if found is None else f"high watermark {found}"


def _row(path: str, seen: InspectedBatch) -> Row:
    row: Row = {"path": path, "position": seen.position, "size": seen.size, "notes": seen.problem}
    header = seen.header
    if header is not None:
        marks = {"control": CONTROL, "transactional": TRANSACTIONAL}
        row |= {
            "first": header.base_offset,
            "last": header.last_offset,
            "records": header.record_count,
            "codec": Codec(header.attributes & CODEC_MASK).name.lower(),
            "time": header.max_timestamp,
            "epoch": header.leader_epoch,
            "producer": ""
            if header.producer_id < 0
            else f"{header.producer_id}/{header.producer_epoch}/{header.base_sequence}",
            "notes": " ".join(name for name, bit in marks.items() if header.attributes & bit),
        }
    return row


def _dump_records(disk: SystemDisk, path: str, output: str) -> None:
    from barnabas.coordinators.record_text import described
    from barnabas.wire.records import decode_batch

    topic = os.path.basename(os.path.dirname(path)).rpartition("-")[0]
    file = disk.open(path)
    try:
        for seen in survey.batches(file):
            if seen.header is None:
                continue
            for record in decode_batch(file.read(seen.position, seen.size), crc=False):
                row: Row = {
                    "offset": record.offset,
                    "time": record.timestamp,
                    "key": _shown(record.key),
                    "value": _shown(record.value),
                    "headers": [[key, _shown(value)] for key, value in record.headers],
                }
                decoded = described(topic, record.key, record.value)
                if decoded is not None:
                    row["decoded"] = decoded
                if output != "table":
                    click.echo(json.dumps(row))
                    continue
                content = f"{row['key']}  {row['value']}"
                if decoded is not None:
                    content = json.dumps(decoded, ensure_ascii=False)
                click.echo(f"  {record.offset}  {record.timestamp}  {content}")
    finally:
        file.close()


def _shown(data: bytes | None) -> str | None:
    if data is None:
        return None
    text = data[:_SHOWN_MAX].decode("utf-8", "backslashreplace")
    return text if len(data) <= _SHOWN_MAX else f"{text}... ({len(data)} bytes)"


@command.command()
@click.argument("directory", metavar="DIR", type=_DIRECTORY)
@output_option
def verify(directory: str, output: str) -> int:
    """Check every batch, record and index; exit with 6 if anything is wrong."""
    found = [problem for partition in _partitions(directory) for problem in _problems(partition)]
    rows = [{"path": p.path, "position": p.position, "problem": p.what} for p in found]
    if rows or chosen_output(output) != "table":
        render(rows, ("path", "position", "problem"), output)
    else:
        click.echo("nothing is wrong")
    return exits.ASSERTION if found else exits.OK


@command.command()
@click.argument("directory", metavar="DIR", type=_DIRECTORY)
@click.option(
    "-y",
    "--yes",
    is_flag=True,
    help="Repair the files; without this option, only show what would be done.",
)
@output_option
def repair(directory: str, yes: bool, output: str) -> int:
    """Rewrite damaged segments with their whole batches; keep the damaged files beside them.

    Lost records leave a gap in the offsets. The broker must not be running.
    """
    disk = SystemDisk()
    rows: list[Row] = []
    with _unused(directory):
        for partition in _partitions(directory):
            damaged = {p.path for p in _problems(partition) if p.path.endswith(survey.LOG_SUFFIX)}
            for base in survey.segments(disk, partition):
                path = survey.path_of(partition, base)
                if path not in damaged:
                    continue
                if yes:
                    rows.append({**survey.save(disk, partition, base)._asdict(), "did": "repaired"})
                else:
                    rows.append({"path": path, "did": "would be repaired: -y"})
            if damaged and yes:
                survey.vouch(disk, *_named(partition))
    columns = ("path", "did", "batches", "records", "bytes_kept", "bytes_lost")
    if rows or chosen_output(output) != "table":
        render(rows, columns, output)
    else:
        click.echo("nothing to repair")
    return exits.OK


def _problems(partition: str) -> Iterator[FileProblem]:
    disk = SystemDisk()
    clean = os.path.exists(os.path.join(os.path.dirname(partition), CLEAN_SHUTDOWN))
    bases = survey.segments(disk, partition)
    with _progress(partition, len(bases)) as advance:
        for base in bases:
            yield from survey.problems(disk, partition, base, clean=clean or base != bases[-1])
            advance()


def _partitions(directory: str) -> list[str]:
    """`directory` itself if it holds segments, else those in it that do."""
    disk = SystemDisk()
    directory = os.path.abspath(directory)
    if survey.segments(disk, directory):
        return [directory]
    inside = [os.path.join(directory, name) for name in disk.list(directory)]
    found = [path for path in inside if os.path.isdir(path) and survey.segments(disk, path)]
    if not found:
        raise click.UsageError(f"{directory} has no segments, nor has any directory in it")
    return found


def _named(partition: str) -> tuple[str, TopicPartition]:
    """The data directory, and the partition in it."""
    data, name = os.path.split(partition)
    topic, _, index = name.rpartition("-")
    return data, TopicPartition(topic, int(index) if index.isdecimal() else 0)


@contextmanager
def _unused(directory: str) -> Iterator[None]:
    """Hold the lock of the data directory, which a running broker would."""
    directory = os.path.abspath(directory)
    data = directory
    if not os.path.exists(os.path.join(data, LOCK_FILE)):
        data = os.path.dirname(directory)
    if not os.path.exists(os.path.join(data, LOCK_FILE)):
        yield
        return
    lock = DirectoryLock(data)
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _progress(partition: str, total: int) -> Iterator[Callable[[], None]]:
    """A progress bar on a terminal; returns a function to call after each segment."""
    if not sys.stderr.isatty():
        yield lambda: None
        return
    label = os.path.basename(partition)
    with click.progressbar(length=total, label=label, file=sys.stderr) as bar:
        yield lambda: bar.update(1)
