"""Runs the real command, as a shell would."""

import os
import subprocess
import sys
from typing import NamedTuple

TIMEOUT_S = 120


class Ended(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


def barnabas(*arguments: str, stdin: str | bytes = "", servers: str | None = None) -> Ended:
    """The command to its end. `servers` goes into the environment."""
    environment = {name: value for name, value in os.environ.items() if "BARNABAS" not in name}
    if servers is not None:
        environment["BARNABAS_BOOTSTRAP_SERVERS"] = servers
    ended = subprocess.run(
        [sys.executable, "-m", "barnabas", *arguments],
        input=stdin.encode() if isinstance(stdin, str) else stdin,
        capture_output=True,
        env=environment,
        timeout=TIMEOUT_S,
        check=False,
    )
    err = ended.stderr.decode()
    assert "Traceback" not in err, err
    return Ended(ended.returncode, ended.stdout.decode(errors="surrogateescape"), err)
