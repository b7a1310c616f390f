"""`barnabas tour`: each idea shown in the terminal, on brokers that the tour starts and ends."""

import sys
import time

import click

from barnabas.cli import exits


@click.command(context_settings={"max_content_width": 100})
@click.option("--chapter", "wanted", type=int, multiple=True, metavar="N", help="Only chapter N.")
@click.option("--auto", is_flag=True, help="Do not wait for Enter between the steps.")
@click.option("--list", "only_list", is_flag=True, help="List the chapters.")
def command(wanted: tuple[int, ...], auto: bool, only_list: bool) -> int:
    """Show the ideas of an event log, one by one: a command, what it does, where the code is.

    Each chapter takes a few seconds, on a broker or a cluster of its own, in memory.
    """
    from barnabas.cli.tours import basics, cluster_chapters, group_chapters, processing
    from barnabas.cli.tours.stage import LAG_MS_MAX, Chapter, ClaimFailed, TourStage
    from barnabas.testing.kafka import Kafka

    modules = (basics, group_chapters, cluster_chapters, processing)
    chapters: list[Chapter] = [each for module in modules for each in module.CHAPTERS]
    unknown = [number for number in wanted if not 1 <= number <= len(chapters)]
    if unknown:
        raise click.UsageError(f"there is no chapter {unknown[0]}: 1 to {len(chapters)}")
    if only_list:
        for number, chapter in enumerate(chapters, 1):
            click.echo(f"{number:2}  {chapter.title}")
        return exits.OK
    pause = _wait if not auto and sys.stdin.isatty() else lambda: None
    states: set[str] = set()
    roles: set[str] = set()
    claims = 0
    began = time.monotonic()
    for number, chapter in enumerate(chapters, 1):
        if wanted and number not in wanted:
            continue
        started = time.monotonic()
        click.echo(f"\n{number}. {chapter.title}\n  {chapter.says}\n  code: {chapter.code}\n")
        settings = {
            "log.cleaner.enable": True,
            "log.cleaner.backoff.ms": 100,
            "replica.lag.time.max.ms": LAG_MS_MAX,
        }
        try:
            with Kafka(chapter.brokers, settings=settings) as kafka:
                stage = TourStage(kafka, pause)
                with stage.watching_roles():
                    chapter.run(stage)
        except ClaimFailed as failure:
            click.echo(f"  ✘ {failure}", err=True)
            for note in getattr(failure, "__notes__", ()):
                click.echo(note, err=True)
            return exits.ASSERTION
        claims += stage.claims
        states |= stage.states
        roles |= stage.roles
        click.echo(f"  ({time.monotonic() - started:.1f} s)")
    click.echo(f"\n{claims} claims hold, after {time.monotonic() - began:.0f} s.")
    if states:
        click.echo(f"States of groups seen: {', '.join(sorted(states))}.")
    if roles:
        click.echo(f"Roles of replicas seen: {', '.join(sorted(roles))}.")
    return exits.OK


def _wait() -> None:
    click.pause("    ... Enter")
