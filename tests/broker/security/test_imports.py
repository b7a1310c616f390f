"""A broker without TLS has nothing of it in memory; nor has a client."""

import subprocess
import sys
from pathlib import Path

BROKER = """
import os, signal, sys
from barnabas.broker import main

def ready(host, port):
    found = [name for name in sys.modules if "barnabas.system.tls" in name
             or name in ("barnabas.broker.security.certificates", "cryptography",
                         "barnabas.broker.security.tls_listener")]
    print(found, flush=True)
    os.kill(os.getpid(), signal.SIGTERM)

sys.exit(main.run({"listeners": "PLAINTEXT://127.0.0.1:0"}, [sys.argv[1]], ready))
"""
CLIENT = """
import sys
import barnabas.sync

barnabas.sync.Admin(bootstrap_servers="localhost:1")
print([name for name in sys.modules if "tls" in name.split(".")])
"""


def test_a_plain_broker_imports_nothing_about_tls(tmp_path: Path) -> None:
    assert _printed(BROKER, str(tmp_path)) == "[]\n"


def test_a_plain_client_imports_nothing_about_tls() -> None:
    assert _printed(CLIENT) == "[]\n"


def _printed(program: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
