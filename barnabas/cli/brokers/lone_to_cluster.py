"""A broker that stood alone becomes one of several: its data moves into a directory of its own.

In: a directory that is locked. Out: DIR/broker-N with all that was in DIR but the keeper's file.
Always: what is moved stays on its disk, by renaming; cut off at any moment, the next start goes on,
and a lone broker refuses the directory meanwhile. The way back is closed (docs/adr/0022).
"""

import os

import click

from barnabas.log.directory.checkpoints import META_PROPERTIES
from barnabas.log.directory.claim import read_meta
from barnabas.system.disk import LOCK_FILE, SystemDisk

KEEPER_FILE = "keeper.db"
STAGE = "becoming-a-broker-of-several"


def is_of_one(directory: str) -> bool:
    """It has the data of a broker that stood alone, or is half way from there."""
    return any(
        os.path.exists(os.path.join(path, META_PROPERTIES))
        for path in (directory, os.path.join(directory, STAGE))
    )


def grow(directory: str, first_id: int, count: int) -> None:
    """The directory is of one broker; afterwards it is of several."""
    stage, disk = os.path.join(directory, STAGE), SystemDisk()
    found = read_meta(disk, directory) or read_meta(disk, stage)
    assert found is not None, "not of one broker"
    index = found.node_id - first_id
    if not 0 <= index < count:
        raise click.UsageError(
            f"{directory} holds the data of broker {found.node_id}, and "
            f"{count} brokers from {first_id} on are wanted: use --id {found.node_id}"
        )
    home = os.path.join(directory, f"broker-{index + 1}")
    os.makedirs(stage, exist_ok=True)
    # What says whose data it is goes last: until then the directory is that of one broker.
    names = sorted(os.listdir(directory), key=lambda name: name == META_PROPERTIES)
    for name in names:
        if name not in (STAGE, LOCK_FILE) and not name.startswith(KEEPER_FILE):
            os.rename(os.path.join(directory, name), os.path.join(stage, name))
    os.rename(stage, home)
    disk.sync_directory(directory)
    click.echo(
        f"barnabas: {directory} held one broker: it is broker {found.node_id} of {count} now, "
        f"its data in {home}",
        err=True,
    )


def refuse_half_grown(directory: str) -> None:
    if os.path.isdir(os.path.join(directory, STAGE)):
        raise click.UsageError(
            f"{directory} was becoming that of several brokers when it was cut off: use --brokers"
        )


def refuse_several(directory: str) -> None:
    """A lone broker would find their topics in the keeper, and none of the records."""
    refuse_half_grown(directory)
    numbers = broker_numbers(directory)
    if numbers:
        raise click.UsageError(
            f"{directory} holds the data of {len(numbers)} brokers: "
            f"use --brokers {max(numbers)}, or give another --data"
        )


def broker_numbers(directory: str) -> list[int]:
    """Of the brokers that have had their data below it."""
    try:
        names = os.listdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(
        int(number)
        for name, _, number in (entry.rpartition("-") for entry in names)
        if name == "broker"
        and number.isascii()
        and number.isdigit()
        and os.path.exists(os.path.join(directory, f"broker-{number}", META_PROPERTIES))
    )
