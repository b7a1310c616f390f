"""`barnabas replay`: a recording into a topic."""

from typing import Any

import click

from barnabas.cli.names import complete_topic
from barnabas.cli.options import client_settings, cluster_options


class Speed(click.ParamType[float]):
    """A factor, or max."""

    name = "1|10|max"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if value == "max":
            return float("inf")
        try:
            speed = float(value)
        except ValueError:
            speed = 0.0
        if speed <= 0:
            self.fail(f"{value!r}: expected a number above 0, or max", param, ctx)
        return speed


@click.command(context_settings={"max_content_width": 100})
@click.argument("path", metavar="FILE", type=click.Path(exists=True, dir_okay=False))
@click.option(
    "--to",
    "topic",
    metavar="TOPIC",
    shell_complete=complete_topic,
    help="Write to this topic.  [default: the recorded one]",
)
@click.option(
    "--speed",
    type=Speed(),
    default="max",
    show_default=True,
    help="1: as fast as it was recorded, by the timestamps; 10: ten times as fast.",
)
@click.option(
    "--keep-times/--new-times",
    default=True,
    show_default=True,
    help="Write the recorded timestamps, or the time of the replay.",
)
@cluster_options
@click.pass_context
def command(
    ctx: click.Context, path: str, topic: str | None, speed: float, keep_times: bool
) -> None:
    """Write the records of FILE to a topic, which is created if it does not exist."""
    from barnabas.client.recording.replay import replay

    settings = client_settings(ctx)
    count = replay(
        path,
        topic=topic,
        speed=None if speed == float("inf") else speed,
        keep_times=keep_times,
        settings=settings,
    )
    click.echo(f"{count} records", err=True)
