"""`barnabas lake`: upkeep of the tables that pipelines write."""

from pathlib import Path

import click

from barnabas.cli import exits
from barnabas.cli.command_group import NamedCommands
from barnabas.cli.pipelines.errors import fails_in_lines

_SPEC = click.Path(exists=True, dir_okay=False, path_type=Path)
_DAY_S = 86_400


@click.group(cls=NamedCommands, context_settings={"max_content_width": 100})
def command() -> None:
    """Maintain the tables that pipelines write."""


@command.command("maintain")
@click.argument("spec", type=_SPEC)
@click.option(
    "--expire-days", type=click.FloatRange(0), default=5.0, show_default=True, metavar="DAYS",
    help="Expire snapshots of an Iceberg table that are older than this.",
)  # fmt: skip
@click.option(
    "--orphan-days", type=click.FloatRange(0), default=7.0, show_default=True, metavar="DAYS",
    help="Delete files that no snapshot names and that are older than this. It must be longer than"
    " the longest batch, and than the longest read.",
)  # fmt: skip
@fails_in_lines
def maintain_(spec: Path, expire_days: float, orphan_days: float) -> int:
    """Join small files, expire old snapshots, and delete files that are not part of the table.

    The pipeline may run meanwhile. SPEC is the spec of a lake in Delta or Iceberg.
    """
    from barnabas.pipeline.lake.upkeep import maintain
    from barnabas.pipeline.run.spec import load

    loaded = load(spec)
    done = maintain(loaded, snapshots_s=expire_days * _DAY_S, orphans_s=orphan_days * _DAY_S)
    click.echo(f"{loaded.name}: {done}")
    return exits.OK
