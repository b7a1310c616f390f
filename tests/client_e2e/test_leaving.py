"""Loops of either kind, and programs that end without closing anything: no leak, no warning."""

import subprocess
import sys

import pytest

from tests.client_e2e.conftest import Served
from tests.support.cache import ROOT
from tests.waiting import PROGRAM_S

AWAITED = """
import asyncio, sys
import uvloop
from barnabas import Admin, Producer

async def main():
    asyncio.get_running_loop().slow_callback_duration = 60  # a busy machine is no fault
    producer = Producer(bootstrap_servers=sys.argv[1])
    print((await producer.send(sys.argv[2], b"x")).offset)
    admin = Admin(bootstrap_servers=sys.argv[1])
    await asyncio.gather(*(admin.topics() for _ in range(20)))
    producer.send_nowait(sys.argv[2], b"never waited for")

{run}
"""

BLOCKING = """
import sys
from barnabas.sync import Admin, Producer

producer = Producer(bootstrap_servers=sys.argv[1])
print(producer.send(sys.argv[2], b"x").offset)
admin = Admin(bootstrap_servers=sys.argv[1])
admin.topics()
producer.send_nowait(sys.argv[2], b"never waited for")
"""


@pytest.mark.parametrize(
    "source",
    [
        AWAITED.format(run="asyncio.run(main())"),
        AWAITED.format(run="uvloop.run(main())"),
        BLOCKING,
    ],
    ids=["asyncio", "uvloop", "blocking"],
)
def test_a_program_that_closes_nothing_ends_in_silence(
    served: Served, topic: str, source: str
) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-X", "dev", "-W", "error", "-c", source),
            served.bootstrap_servers,
            topic,
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PROGRAM_S,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")
