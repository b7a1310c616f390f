"""The examples of docs/WORKERS.md: they run, and a type checker has nothing to say."""

import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import barnabas.sync
from tests.client_e2e.conftest import Served, skip_without_share_groups
from tests.support.cache import ROOT
from tests.waiting import WAIT_S

EXAMPLES = re.findall(r"```python\n(.*?)```", (ROOT / "docs/WORKERS.md").read_text(), re.DOTALL)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_handles_every_record(served: Served, topic: str, number: int) -> None:
    servers = served.bootstrap_servers
    shares = "share=True" in EXAMPLES[number]
    if shares:
        skip_without_share_groups(served)
    with barnabas.sync.Admin(bootstrap_servers=servers) as admin:
        admin.create_topic(topic, partitions=2)
        if shares:
            earliest = {"share.auto.offset.reset": "earliest"}
            admin.alter_group(f"{topic}-shipping", put=earliest)
    with barnabas.sync.Producer(bootstrap_servers=servers) as producer:
        for amount in range(20):
            producer.send(topic, b"%d" % amount, key=b"customer-%d" % (amount % 3))
    source = re.sub(r'"(orders|billing|shipping|backfill)', rf'"{topic}-\1', EXAMPLES[number])
    source = source.replace(f'"{topic}-orders"', f'"{topic}"')
    said: list[tuple[object, ...]] = []
    names: dict[str, Any] = {"__name__": "example", "print": lambda *words: said.append(words)}
    exec(compile(source, f"example-{number}", "exec"), names)
    handle = names["handle"]
    thread = threading.Thread(target=handle.run, kwargs={"bootstrap_servers": servers})
    thread.start()
    deadline = time.monotonic() + WAIT_S
    while len(said) < 20 and time.monotonic() < deadline:
        thread.join(0.02)
    handle.stop()
    thread.join(WAIT_S)
    assert not thread.is_alive()
    assert sorted(int(words[-1]) for words in said) == list(range(20))  # type: ignore[call-overload]


CALLED = """
from barnabas import Consumer, Message, parallel


@parallel("t", group_id="g", value_deserializer=int)
async def awaited(message: Message[bytes | None, int]) -> None: ...


@parallel("t", group_id="g")
def blocking(message: Message[bytes | None, bytes | None]) -> None: ...


async def unit(one: Message[bytes | None, int], two: Message[bytes | None, bytes | None]) -> None:
    await awaited(one)
    blocking(two)
    options = {"bootstrap.servers": "x", "enable.auto.commit": False, "fetch.min.bytes": 3}
    Consumer("t", options, group_id="g")
    parallel("t", group_id="g", settings=options)
"""


def test_the_examples_pass_a_strict_type_checker(tmp_path: Path) -> None:
    files = []
    for number, source in enumerate(EXAMPLES):
        files.append(tmp_path / f"example_{number}.py")
        files[-1].write_text(source)
    (tmp_path / "wrong.py").write_text(
        EXAMPLES[3].replace("Message[str, int]", "Message[int, str]")
    )
    assert "Message[int, str]" in (tmp_path / "wrong.py").read_text()
    files.append(tmp_path / "called.py")
    files[-1].write_text(CALLED)
    checked = _mypy(*files)
    assert checked.returncode == 0, checked.stdout
    wrong = _mypy(tmp_path / "wrong.py")
    assert "Argument 1 to" in wrong.stdout
    assert "Message[int, str]" in wrong.stdout


def _mypy(*files: Path) -> "subprocess.CompletedProcess[str]":
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--follow-imports=silent",
        *map(str, files),
    ]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
