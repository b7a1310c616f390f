"""What a chapter of the tour says, runs and checks.

Always: a claim that does not hold raises ClaimFailed, which ends the tour with an error.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from tempfile import TemporaryFile

import click

from barnabas.broker.partition import Partition
from barnabas.broker.role import Role
from barnabas.testing.kafka import Kafka

LINES_MAX = 14
WAIT_S = 180.0  # only a claim that does not hold waits so long
LAG_MS_MAX = 120_000  # longer than a chapter on a busy machine: a chapter advances the clock


class ClaimFailed(Exception):
    """What the tour said did not happen."""


@dataclass(frozen=True, slots=True)
class Chapter:
    """`title` with the Chinese term of the articles; `says`: the idea; `code`: where it is."""

    title: str
    says: str
    code: str
    run: Callable[["TourStage"], None]
    brokers: int = 1


class TourStage:
    """One chapter that runs. `pause`: waits for the reader between two steps."""

    def __init__(self, kafka: Kafka, pause: Callable[[], None] = lambda: None) -> None:
        self.kafka = kafka
        self.claims = 0
        self.states: set[str] = set()  # of groups that were seen
        self.roles: set[str] = set()  # of replicas that were seen
        self._pause = pause

    @contextmanager
    def watching_roles(self) -> Iterator[None]:
        """Adds every role that a replica of these brokers takes, also for a moment."""
        plain = Partition._become

        def become(partition: Partition, role: Role) -> None:
            self.roles.add(role.value)
            plain(partition, role)

        Partition._become = become  # type: ignore[method-assign,assignment]
        try:
            yield
        finally:
            Partition._become = plain  # type: ignore[method-assign]

    def tell(self, text: str) -> None:
        click.echo(f"  {text}")

    def command(self, *arguments: str) -> str:
        """Run `barnabas ...` here, and show its first lines."""
        from barnabas.cli.app import run

        shown = " ".join(each if " " not in each else f"'{each}'" for each in arguments)
        click.echo(f"  $ barnabas {shown}")
        with TemporaryFile("w+", encoding="utf-8") as out:  # some commands need its descriptor
            with redirect_stdout(out):
                run(["-b", self.kafka.bootstrap_servers, *arguments])
            out.flush()
            out.seek(0)
            said = out.read()
        lines = said.splitlines()
        for line in lines[:LINES_MAX]:
            click.echo(f"    {line}")
        if len(lines) > LINES_MAX:
            click.echo(f"    ... {len(lines) - LINES_MAX} more lines")
        return said

    def claim(self, text: str, holds: object) -> None:
        """Say it, and that it is so."""
        if not holds:
            raise ClaimFailed(text)
        self.claims += 1
        click.echo(f"  ✔ {text}")
        sys.stdout.flush()
        self._pause()

    def eventually(self, text: str, condition: Callable[[], object]) -> None:
        try:
            self.kafka.wait_until(condition, WAIT_S)
        except AssertionError:
            raise ClaimFailed(text) from None
        self.claim(text, True)

    def group_state(self, group: str) -> str:
        state = "Dead" if group not in self.kafka.groups() else self.kafka.group(group).state
        self.states.add(state)
        return state
