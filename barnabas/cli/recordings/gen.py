"""`barnabas gen`: sample records, to standard output or into a topic."""

import sys
import time
from typing import Any

import click

from barnabas.cli.names import complete_topic
from barnabas.cli.options import client_settings, cluster_options
from barnabas.client.samples.samples import KINDS, Make, SamplePlan, made_of

_BATCH = 1_000


class Share(click.ParamType[float]):
    """A share of all records: 5%, 1/500 or 0.05."""

    name = "SHARE"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        text = str(value)
        try:
            if text.endswith("%"):
                found = float(text[:-1]) / 100
            elif "/" in text:
                part, _, whole = text.partition("/")
                found = float(part) / float(whole)
            else:
                found = float(text)
        except (ValueError, ZeroDivisionError):
            self.fail(f"{text!r}: expected 5%, 1/500 or 0.05", param, ctx)
        if not 0 <= found <= 1:
            self.fail(f"{text!r}: expected a share from 0 to 1", param, ctx)
        return found


@click.command(context_settings={"max_content_width": 100})
@click.argument("kind", metavar="orders|clicks|sensors|FILE.yml")
@click.option(
    "--to",
    "topic",
    metavar="TOPIC",
    shell_complete=complete_topic,
    help="Write to this topic, not to standard output.",
)
@click.option(
    "-c", "--count", type=click.IntRange(1), help="The number of records.  [default: until Ctrl-C]"
)
@click.option(
    "--rate",
    type=click.FloatRange(0, min_open=True),
    help="Records per second.  [default: as fast as possible]",
)
@click.option("--poison", type=Share(), default=0.0, help="The share that no application can read.")
@click.option("--late", type=Share(), default=0.0, help="The share that is up to ten minutes late.")
@click.option("--hot-key", type=Share(), default=0.0, help="The share with one and the same key.")
@click.option(
    "--keys", type=click.IntRange(1), default=1_000, show_default=True, help="The number of keys."
)
@click.option(
    "--seed", type=int, default=1, show_default=True, help="Another seed makes other records."
)
@click.option("--now", is_flag=True, help="Timestamps begin now, not at 2026-01-01.")
@cluster_options
@click.pass_context
def command(
    ctx: click.Context,
    kind: str,
    topic: str | None,
    count: int | None,
    rate: float | None,
    poison: float,
    late: float,
    hot_key: float,
    keys: int,
    seed: int,
    now: bool,
) -> None:
    """Make sample records: orders, clicks, sensors, or your own fields from a YAML file.

    The same seed makes the same records. Standard output gets lines that `produce -J` reads.
    """
    plan = SamplePlan(_make(kind), seed, keys, rate or 1_000.0, poison, late, hot_key)
    if now:
        plan = SamplePlan(
            plan.make, seed, keys, rate or 1_000.0, poison, late, hot_key, int(time.time() * 1000)
        )
    if topic is None:
        _print(plan, count, rate)
        return
    _produce(ctx, plan, topic, count, rate)


def _make(kind: str) -> Make:
    if kind in KINDS:
        return KINDS[kind]
    if not kind.endswith((".yml", ".yaml")):
        raise click.UsageError(
            f"{kind!r}: expected {', '.join(KINDS)}, or a file that ends in .yml"
        )
    try:
        import yaml
    except ModuleNotFoundError:
        raise click.UsageError("a YAML file needs pyyaml: pip install pyyaml") from None
    try:
        with open(kind, encoding="utf-8") as file:
            spec = yaml.safe_load(file)
        if not isinstance(spec, dict):
            raise ValueError("expected `key:` and `fields:`")
        return made_of(spec)
    except (ValueError, TypeError, yaml.YAMLError) as problem:
        raise click.UsageError(f"{kind}: {problem}") from None


def _numbers(count: int | None, rate: float | None) -> Any:
    began = time.monotonic()
    number = 0
    while count is None or number < count:
        if rate is not None:
            time.sleep(max(0.0, began + number / rate - time.monotonic()))
        yield number
        number += 1


def _print(plan: SamplePlan, count: int | None, rate: float | None) -> None:
    import json

    out = sys.stdout.buffer
    for number in _numbers(count, rate):
        sample = plan.sample(number)
        fields = {
            "key": sample.key.decode(),
            "payload": sample.value.decode(),
            "ts": sample.timestamp,
        }
        out.write(json.dumps(fields, ensure_ascii=False).encode() + b"\n")
        if rate is not None:
            out.flush()
    out.flush()


def _produce(
    ctx: click.Context, plan: SamplePlan, topic: str, count: int | None, rate: float | None
) -> None:
    from barnabas.client.blocking.producer import Producer
    from barnabas.client.producer.accumulator import BufferFull

    settings = client_settings(ctx)
    sent = 0
    with Producer(settings) as producer:
        try:
            for number in _numbers(count, rate):
                sample = plan.sample(number)
                while True:
                    try:
                        producer.send_nowait(
                            topic, sample.value, key=sample.key, timestamp=sample.timestamp
                        )
                        break
                    except BufferFull:
                        producer.drain()
                sent += 1
        except KeyboardInterrupt:
            pass
        producer.flush()
    click.echo(f"{sent} records to {topic}", err=True)
