"""The examples of docs/CONSUMERS.md: they run, and a type checker has nothing to say."""

import asyncio
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import barnabas.sync
from tests.client_e2e.conftest import Served
from tests.client_e2e.test_workers_docs import _mypy
from tests.support.cache import ROOT
from tests.waiting import WAIT_S

EXAMPLES = re.findall(r"```python\n(.*?)```", (ROOT / "docs/CONSUMERS.md").read_text(), re.DOTALL)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_reads_what_is_there(served: Served, topic: str, number: int) -> None:
    servers = served.bootstrap_servers
    with barnabas.sync.Admin(bootstrap_servers=servers) as admin:
        admin.create_topic(topic, partitions=2)
    with barnabas.sync.Producer(bootstrap_servers=servers) as producer:
        for amount in range(20):
            producer.send(topic, b"%d" % amount, partition=amount % 2)
    if "pyarrow" in EXAMPLES[number] or "read_arrow" in EXAMPLES[number]:
        pytest.importorskip("pyarrow")
    source = EXAMPLES[number].replace('"orders"', f'"{topic}"')
    source = source.replace('"billing"', f'"billing-{topic}"')
    said: list[tuple[object, ...]] = []
    names: dict[str, Any] = {"__name__": "example", "print": lambda *words: said.append(words)}
    exec(compile(source, f"example-{number}", "exec"), names)
    result = names["main"](servers)
    if inspect.iscoroutine(result):
        asyncio.run(asyncio.wait_for(result, WAIT_S))
    assert said


def test_the_examples_pass_a_strict_type_checker(tmp_path: Path) -> None:
    files = [tmp_path / f"example_{number}.py" for number in range(len(EXAMPLES))]
    for file, source in zip(files, EXAMPLES, strict=True):
        file.write_text(source)
    typed = tmp_path / "typed.py"
    typed.write_text(
        "import json\n"
        "from barnabas import Consumer\n"
        "consumer = Consumer('t', group_id='g', key_deserializer=bytes.decode,\n"
        "                    value_deserializer=float)\n"
        "async def main() -> str:\n"
        "    message = await consumer.getone()\n"
        "    number: float = message.value\n"
        "    return message.key\n"
    )
    checked = _mypy(*files, typed)
    assert checked.returncode == 0, checked.stdout
