"""`barnabas cluster reassign`: move replicas to other brokers, watch them move, or call it off."""

import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from barnabas.cli import exits
from barnabas.cli.options import cluster_options, open_admin
from barnabas.cli.partitions import broker_ids, named_partitions
from barnabas.cli.render import output_option, render
from barnabas.client.cluster_rows import counted
from barnabas.config.resolve import ConfigSource
from barnabas.model.ids import BrokerId, TopicPartition

if TYPE_CHECKING:
    from barnabas.client.blocking.admin import Admin
    from barnabas.client.metadata_snapshot import MetadataSnapshot

_LOOK_S = 0.2
_SENDING = "leader.replication.throttled.replicas"
_TAKING = "follower.replication.throttled.replicas"
_RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
_COLUMNS = ("topic", "partition", "replicas", "adding", "removing", "left")


@click.command()
@click.argument("partitions", metavar="[TOPIC[:PARTITION[=BROKER,...]]...]", nargs=-1)
@click.option("--to", metavar="BROKER,...", help="Spread the replicas over these brokers.")
@click.option(
    "-r", "--replication-factor", type=click.IntRange(1, 32_767), help="[default: as many as now]"
)
@click.option(
    "--cancel", is_flag=True, help="Cancel reassignments in progress: of these partitions, or all."
)
@click.option(
    "--throttle",
    metavar="BYTES",
    type=click.IntRange(1),
    help="Bytes per second that each broker sends and receives for the "
    "reassignment; --wait removes the throttle at the end.",
)
@click.option("--wait", is_flag=True, help="Wait until the reassignment is complete.")
@click.option("--dry-run", is_flag=True, help="Show the request, change nothing.")
@output_option
@cluster_options
@click.pass_context
def reassign(
    ctx: click.Context,
    partitions: tuple[str, ...],
    to: str | None,
    replication_factor: int | None,
    cancel: bool,
    throttle: int | None,
    wait: bool,
    dry_run: bool,
    output: str,
) -> int:
    """Move replicas to other brokers. Without arguments: show reassignments in progress.

    The first broker of a partition is its preferred leader.
    """
    targets = None if to is None else broker_ids(to)
    if cancel and (targets or replication_factor):
        raise click.UsageError("--cancel takes no brokers")
    if throttle and not partitions:
        raise click.UsageError("--throttle: name the topics to move")
    moved: list[str] = []
    with open_admin(ctx) as admin:
        if cancel:
            return _cancel(admin, partitions)
        if partitions:
            view = admin.topics()
            named = named_partitions(admin, partitions)
            plan = plan_moves(view, named, targets, replication_factor)
            if dry_run:
                rows = [_planned(view, at, brokers) for at, brokers in plan.items()]
                render(rows, ("topic", "partition", "replicas", "to"), output)
                return exits.OK
            if plan and throttle:
                _throttle(admin, view, plan, throttle)
            if plan:
                admin.reassign(dict(plan))
            moved = [at.topic for at in plan]
            click.echo(f"{counted(len(plan), 'partition')} to move", err=True)
        elif targets or replication_factor:
            raise click.UsageError("name the topics to move")
        if wait:
            _wait(admin, moved)
        elif not partitions or output != "table":
            render(_moving(admin), _COLUMNS, output)
    return exits.OK


def plan_moves(
    view: "MetadataSnapshot",
    named: Sequence[tuple[TopicPartition, list[int] | None]],
    targets: Sequence[int] | None,
    factor: int | None,
) -> dict[TopicPartition, list[int]]:
    """The target brokers of each partition, placed like a new topic; partitions that need no move
    are left out.
    """
    allowed = list(view.brokers) if targets is None else list(targets)
    if unknown := [broker for broker in allowed if broker not in view.brokers]:
        raise click.UsageError(
            f"there is no broker {unknown[0]}; the brokers are {_ids(view.brokers)}"
        )
    plan: dict[TopicPartition, list[int]] = {}
    for at, brokers in named:
        now = view.partition(at).replicas
        wanted = brokers
        if wanted is None:
            if targets is None and factor is None:
                raise click.UsageError(
                    f"{at}: the target brokers are missing: use --to, or"
                    f" {at.topic}:{at.partition}=1,2"
                )
            wanted = _spread(view, at, allowed, factor or len(now))
        if wanted != list(now):
            plan[at] = wanted
    return plan


def _spread(
    view: "MetadataSnapshot", at: TopicPartition, allowed: Sequence[int], factor: int
) -> list[int]:
    from zlib import crc32

    from barnabas.controller.placement import place

    racks = {BrokerId(broker): view.brokers[broker].rack for broker in allowed}
    start = crc32(at.topic.encode()) % len(allowed)  # the same for each call
    return list(place(racks, at.partition + 1, factor, start=start, shift=start)[at.partition])


def _planned(view: "MetadataSnapshot", at: TopicPartition, brokers: list[int]) -> dict[str, Any]:
    now = view.partition(at).replicas
    return {"topic": at.topic, "partition": at.partition, "replicas": now, "to": brokers}


def _moving(admin: "Admin") -> list[dict[str, Any]]:
    """`left`: the records that the slowest new replica has not fetched yet."""
    moves = admin.reassignments()
    by_topic: dict[str, list[int]] = {}
    for move in moves:
        by_topic.setdefault(move.at.topic, []).append(move.at.partition)
    logs = {topic: admin.describe_logs(topic, numbers) for topic, numbers in by_topic.items()}
    return [
        {
            "topic": move.at.topic,
            "partition": move.at.partition,
            "replicas": move.replicas,
            "adding": move.adding,
            "removing": move.removing,
            "left": _left(logs[move.at.topic].get(move.at.partition), move.adding),
        }
        for move in moves
    ]


def _left(log: Any, adding: Sequence[int]) -> int | None:
    if log is None or not log.replicas:
        return None
    ends: Mapping[int, int] = {replica.broker: replica.end for replica in log.replicas}
    end = log.replicas[0].end  # of the leader, which comes first
    return max((end - max(0, ends.get(broker, 0)) for broker in adding), default=0)


def _cancel(admin: "Admin", words: Sequence[str]) -> int:
    moving = [move.at for move in admin.reassignments()]
    if words:
        named = {at for at, _ in named_partitions(admin, words)}
        moving = [at for at in moving if at in named]
    if moving:
        admin.reassign(dict.fromkeys(moving))
    click.echo(f"{counted(len(moving), 'reassignment')} cancelled", err=True)
    return exits.OK


def _throttle(
    admin: "Admin", view: "MetadataSnapshot", plan: Mapping[TopicPartition, list[int]], rate: int
) -> None:
    """Sets Kafka's throttle options: the rates of brokers, and the throttled replicas."""
    sending: dict[str, list[str]] = {}
    taking: dict[str, list[str]] = {}
    for at, brokers in plan.items():
        now = view.partition(at).replicas
        sending.setdefault(at.topic, []).extend(f"{at.partition}:{b}" for b in now)
        new = [f"{at.partition}:{b}" for b in brokers if b not in now]
        taking.setdefault(at.topic, []).extend(new)
    for topic, replicas in sending.items():
        admin.alter_topic(
            topic,
            put={_SENDING: ",".join(replicas), _TAKING: ",".join(taking[topic])},
        )
    for broker in view.brokers:
        admin.alter_broker(broker, put=dict.fromkeys(_RATES, str(rate)))


def _lift_throttle(admin: "Admin", topics: Iterable[str]) -> None:
    for broker in sorted(admin.topics().brokers):
        options = admin.broker_options(broker)
        there = [
            o.name for o in options if o.name in _RATES and o.source == ConfigSource.DYNAMIC_BROKER
        ]
        if there:
            admin.alter_broker(broker, reset=there)
    for topic in topics:
        options = admin.topic_options(topic)
        lists = [o.name for o in options if o.name in (_SENDING, _TAKING) and o.value]
        if lists:
            admin.alter_topic(topic, reset=lists)


def _wait(admin: "Admin", moved: Iterable[str]) -> None:
    """Waits for all reassignments, including those of others; `moved`: our own topics, which may be
    complete already.
    """
    shown = -1
    topics = dict.fromkeys(moved)
    while moving := _moving(admin):
        topics.update(dict.fromkeys(row["topic"] for row in moving))
        left = sum(row["left"] or 0 for row in moving)
        if sys.stderr.isatty() and left != shown:
            click.echo(
                f"\r\x1b[K{counted(len(moving), 'partition')} left to move, {left} records",
                err=True,
                nl=False,
            )
            shown = left
        time.sleep(_LOOK_S)
    if shown >= 0:
        click.echo("\r\x1b[K", err=True, nl=False)
    _lift_throttle(admin, topics)
    click.echo("no reassignment is in progress any more", err=True)


def _ids(brokers: Mapping[int, object]) -> str:
    return ", ".join(map(str, sorted(brokers)))
