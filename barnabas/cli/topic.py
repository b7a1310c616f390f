"""`barnabas topic`: list, create, describe, configure, grow, trim, delete."""

from typing import TYPE_CHECKING, Any

import click

from barnabas.cli.command_group import NamedCommands
from barnabas.cli.confirmation import confirm, require_answer, yes_option
from barnabas.cli.names import complete_topic
from barnabas.cli.offsets import OffsetRangeOption, parse_range, resolve
from barnabas.cli.options import cluster_options, open_admin, pairs
from barnabas.cli.render import output_option, render
from barnabas.config.option import nearest
from barnabas.config.resolve import ConfigSource
from barnabas.model.errors import Code, InvalidRequest, KafkaError
from barnabas.model.ids import TopicPartition, check_topic_name

if TYPE_CHECKING:
    from barnabas.client.blocking.admin import Admin
    from barnabas.client.metadata_snapshot import TopicMetadata
    from barnabas.wire.messages.describe_logs import DescribedLog

_BROKER_DEFAULT = -1
_SOURCES = {int(source): source.name.lower().replace("_", " ") for source in ConfigSource}

partitions_option = click.option(
    "-p",
    "--partition",
    "numbers",
    type=click.IntRange(0),
    multiple=True,
    help="Only this partition; repeat the option for several. [default: all]",
)
"""The command gets `numbers`."""


@click.group(cls=NamedCommands, context_settings={"max_content_width": 100})
@cluster_options
def command() -> None:
    """List, create, describe, configure and delete topics."""


@command.command("ls")
@click.option("-a", "--all", "with_internal", is_flag=True, help="Internal topics too.")
@output_option
@cluster_options
@click.pass_context
def list_(ctx: click.Context, with_internal: bool, output: str) -> None:
    """List topics."""
    with open_admin(ctx) as admin:
        topics = admin.topics().topics
    rows = [
        {
            "topic": name,
            "partitions": len(topic.partitions),
            "replicas": max((len(p.replicas) for p in topic.partitions), default=0),
            "internal": topic.is_internal,
        }
        for name, topic in sorted(topics.items())
        if with_internal or not topic.is_internal
    ]
    render(rows, ["topic", "partitions", "replicas"], output)


@command.command()
@click.argument("topic")
@click.option("-p", "--partitions", type=click.IntRange(1, 1_000_000), help="[default: broker's]")
@click.option(
    "-r", "--replication-factor", type=click.IntRange(1, 32_767), help="[default: broker's]"
)
@click.option(
    "-c", "--config", "configs", metavar="NAME=VALUE", multiple=True, help="A topic option."
)
@click.option("--if-not-exists", is_flag=True, help="Succeed if the topic exists already.")
@click.option("--dry-run", is_flag=True, help="Check the request, create nothing.")
@cluster_options
@click.pass_context
def create(
    ctx: click.Context,
    topic: str,
    partitions: int | None,
    replication_factor: int | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
    dry_run: bool,
) -> None:
    """Create a topic."""
    _check_name(topic)
    with open_admin(ctx) as admin:
        try:
            admin.create_topic(
                topic,
                partitions=partitions or _BROKER_DEFAULT,
                replication_factor=replication_factor or _BROKER_DEFAULT,
                configs=pairs(configs),
                validate_only=dry_run,
            )
        except KafkaError as problem:
            if problem.code is not Code.TOPIC_ALREADY_EXISTS or not if_not_exists:
                raise
            click.echo(f"topic {topic} is there already", err=True)
            return
    click.echo(f"topic {topic} {'can be' if dry_run else 'is'} created", err=True)


@command.command()
@click.argument("topic", shell_complete=complete_topic)
@output_option
@cluster_options
@click.pass_context
def describe(ctx: click.Context, topic: str, output: str) -> None:
    """Show the partitions of a topic, with leaders, replicas and offsets.

    Consumers read up to HIGH WATERMARK. The leader's log may go on to LOG END: those records are
    not on all in-sync replicas yet.
    """
    with open_admin(ctx) as admin:
        found = find_topic(admin, topic)
        led = [p for p in found.partitions if p.leader >= 0]
        partitions = [TopicPartition(topic, p.number) for p in led]
        starts, ends = resolve(admin, partitions, OffsetRangeOption(), to_end=True)
        logs = admin.describe_logs(topic, [p.number for p in led])
    compacted = any(log.dirty_bytes >= 0 for log in logs.values())
    replicated = any(len(log.replicas) > 1 for log in logs.values())
    rows: list[dict[str, Any]] = []
    for partition in found.partitions:
        at = TopicPartition(topic, partition.number)
        log = logs.get(partition.number)
        rows.append(
            {
                "topic": topic,
                "partition": partition.number,
                "leader": partition.leader,
                "epoch": partition.leader_epoch,
                "replicas": partition.replicas,
                "in_sync": partition.in_sync,
                "start": starts.get(at),
                "end": ends.get(at),
                "high_watermark": ends.get(at),
                "log_end": _log_end(log),
                **({} if log is None else {"bytes": log.bytes, "segments": log.segments}),
            }
        )
        if log is not None and replicated:
            rows[-1] |= {"lag": _lag(log), "replica_lags": _replica_lags(log, partition.replicas)}
        if log is not None and compacted:
            rows[-1] |= {"dirty_bytes": log.dirty_bytes, "compaction": log.cleaning}
    columns = ["partition", "leader", "epoch", "replicas", "in_sync", "start", "high_watermark"]
    columns += ["log_end", "lag"] if replicated else []
    columns += ["bytes", "segments"] if logs else []
    columns += ["dirty_bytes", "compaction"] if compacted else []
    render(rows, columns, output)


@command.command()
@click.argument("topic", shell_complete=complete_topic)
@click.option("-p", "--partition", type=click.IntRange(0), help="Only this partition.")
@click.option("-n", "--last", type=click.IntRange(1, 1000), default=100, show_default=True,
              help="The number of segments of each partition.")  # fmt: skip
@output_option
@cluster_options
@click.pass_context
def segments(ctx: click.Context, topic: str, partition: int | None, last: int, output: str) -> None:
    """Show the newest segments of a topic's logs, with their offsets, sizes and times.

    Only Barnabas brokers report segments.
    """
    from barnabas.client.segment_rows import COLUMNS, segment_rows

    with open_admin(ctx) as admin:
        led = [p.number for p in find_topic(admin, topic).partitions if p.leader >= 0]
        wanted = led if partition is None else [partition]
        rows = []
        for number in wanted:
            for log in admin.describe_logs(topic, [number], segments_max=last).values():
                rows += segment_rows(topic, log)
    if wanted and not rows:
        raise click.ClickException("the brokers are not Barnabas, and do not report segments")
    render(rows, COLUMNS, output)


def _log_end(log: "DescribedLog | None") -> int | None:
    """The offset after the last record of the leader's log, committed or not; None: not known."""
    return log.replicas[0].end if log is not None and log.replicas else None


@command.command()
@click.argument("topic", shell_complete=complete_topic)
@click.option("--set", "put", metavar="NAME=VALUE", multiple=True, help="Set an option.")
@click.option("--reset", metavar="NAME", multiple=True, help="Reset an option to its default.")
@click.option("-a", "--all", "with_defaults", is_flag=True, help="Show defaults too.")
@output_option
@cluster_options
@click.pass_context
def config(
    ctx: click.Context,
    topic: str,
    put: tuple[str, ...],
    reset: tuple[str, ...],
    with_defaults: bool,
    output: str,
) -> None:
    """Show the options of a topic, or change them."""
    with open_admin(ctx) as admin:
        find_topic(admin, topic)
        if put or reset:
            admin.alter_topic(topic, put=pairs(put), reset=reset)
            return
        options = admin.topic_options(topic)
    rows = [
        {
            "name": option.name,
            "value": option.value,
            "source": _SOURCES.get(option.source, str(option.source)),
        }
        for option in options
        if with_defaults or option.source != ConfigSource.DEFAULT
    ]
    render(rows, ["name", "value", "source"], output)


@command.command("add-partitions")
@click.argument("topic", shell_complete=complete_topic)
@click.argument("count", type=click.IntRange(1, 1_000_000))
@cluster_options
@click.pass_context
def add_partitions(ctx: click.Context, topic: str, count: int) -> None:
    """Add COUNT partitions to a topic. Keys may go to other partitions from then on."""
    with open_admin(ctx) as admin:
        total = len(find_topic(admin, topic).partitions) + count
        admin.create_partitions(topic, total)
    click.echo(f"topic {topic} has {total} partitions", err=True)


@command.command()
@click.argument("topic", shell_complete=complete_topic)
@click.option(
    "-o",
    "--before",
    metavar="OFFSET",
    required=True,
    help="Delete the records before: end, OFFSET, -N (all but the last N) or s@TIME.",
)
@partitions_option
@yes_option
@output_option
@cluster_options
@click.pass_context
def trim(
    ctx: click.Context, topic: str, before: str, numbers: tuple[int, ...], yes: bool, output: str
) -> None:
    """Delete the oldest records of a topic, for good."""
    range_ = offsets_range((before,))
    if range_.stop_ms is not None:
        raise click.UsageError("-o e@TIME: to delete what is older than a time, use s@TIME")
    require_answer(yes)
    with open_admin(ctx) as admin:
        partitions = select_partitions(find_topic(admin, topic), numbers)
        starts, ends = resolve(admin, partitions, range_, to_end=True)
        confirm(f"delete records of {topic} before {before}", yes)
        cut = admin.delete_records({at: min(starts[at], ends[at]) for at in partitions})
    rows = [{"partition": at.partition, "start": start} for at, start in sorted(cut.items())]
    render(rows, ["partition", "start"], output)


@command.command()
@click.argument("topics", metavar="TOPIC...", nargs=-1, required=True)
@yes_option
@click.option("--if-exists", is_flag=True, help="Succeed if the topic does not exist.")
@cluster_options
@click.pass_context
def delete(ctx: click.Context, topics: tuple[str, ...], yes: bool, if_exists: bool) -> None:
    """Delete topics with all their records, for good."""
    require_answer(yes)
    with open_admin(ctx) as admin:
        for topic in topics:
            try:
                find_topic(admin, topic)
                confirm(f"delete topic {topic}", yes)
                admin.delete_topic(topic)
            except KafkaError as problem:
                if problem.code is not Code.UNKNOWN_TOPIC_OR_PARTITION or not if_exists:
                    raise
                continue
            click.echo(f"topic {topic} is deleted", err=True)


def _lag(log: "DescribedLog") -> str:
    """The records that each follower has not fetched yet, for people: `2:0 3:15`; ? is unknown."""
    leader, *followers = log.replicas
    return " ".join(
        f"{each.broker}:{max(0, leader.end - each.end) if each.end >= 0 else '?'}"
        for each in followers
    )


def _replica_lags(log: "DescribedLog", replicas: list[int]) -> list[dict[str, int | None]]:
    """The same for scripts, by replica."""
    end = log.replicas[0].end
    return [
        {
            "broker": each.broker,
            "lag": max(0, end - each.end) if each.end >= 0 else None,
            "behind_ms": each.behind_ms if each.behind_ms >= 0 else None,
        }
        for each in log.replicas
        if each.broker in replicas
    ]


def find_topic(admin: "Admin", name: str) -> "TopicMetadata":
    """The topic, or an error with the nearest name there is."""
    _check_name(name)
    try:
        return admin.topic(name)
    except InvalidRequest as problem:
        if problem.code is not Code.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        hint = nearest(name, admin.topics().topics)
        raise InvalidRequest(problem.code, f"topic {name!r} does not exist{hint}") from None


def select_partitions(topic: "TopicMetadata", numbers: tuple[int, ...]) -> list[TopicPartition]:
    """Those numbers, or all."""
    there = [partition.number for partition in topic.partitions]
    for number in numbers:
        if number not in there:
            raise InvalidRequest(
                Code.UNKNOWN_TOPIC_OR_PARTITION,
                f"topic {topic.name!r} has no partition {number}: it has {len(there)}",
            )
    return [TopicPartition(topic.name, number) for number in numbers or there]


def offsets_range(words: tuple[str, ...]) -> OffsetRangeOption:
    try:
        return parse_range(words)
    except ValueError as problem:
        raise click.UsageError(f"-o {problem}") from None


def _check_name(topic: str) -> None:
    try:
        check_topic_name(topic)
    except KafkaError as problem:
        raise click.UsageError(problem.detail) from None
