"""Turns a lone broker into one of several: moves its data into a directory of its own.

In: a locked directory. Out: DIR/broker-N with all files of DIR except the keeper's file.
Always: files are moved by renaming, on the same disk. If it is interrupted, the next start
continues, and a lone broker refuses the directory until then. A cluster cannot become a lone broker
again (docs/adr/0022).
"""

import os

import click

from barnabas.log.directory.checkpoints import META_PROPERTIES
from barnabas.log.directory.claim import read_meta
from barnabas.system.disk import LOCK_FILE, SystemDisk

KEEPER_FILE = "keeper.db"
STAGE = "becoming-a-broker-of-several"


def is_of_one(directory: str) -> bool:
    """Whether the directory has the data of a lone broker, or an unfinished move of it."""
    return any(
        os.path.exists(os.path.join(path, META_PROPERTIES))
        for path in (directory, os.path.join(directory, STAGE))
    )


def grow(directory: str, first_id: int, count: int) -> None:
    """Turns the directory of one broker into that of several."""
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
    # meta.properties moves last: until then the directory belongs to one broker.
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
            f"the move of {directory} to several brokers was interrupted: use --brokers to finish"
            " it"
        )


def refuse_several(directory: str) -> None:
    """Refuses a lone broker: it would find the cluster's topics in the keeper, but no records."""
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
