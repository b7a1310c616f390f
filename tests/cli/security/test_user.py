"""`barnabas user`: with a broker and without one, and where its passwords come from."""

from pathlib import Path

import pytest

from tests.cli.command import barnabas
from tests.compat.sasl_brokers import PASSWORD, USER, sasl_brokers

CANARY = "canary-4711"


def test_the_first_user_is_made_before_a_broker_starts(tmp_path: Path) -> None:
    data = ("--data", str(tmp_path / "data"))
    made = barnabas("user", "create", "admin", *data, "--password-stdin", stdin=f"{CANARY}\n")
    assert made.code == 0
    assert CANARY not in made.out + made.err
    again = barnabas("user", "create", "admin", *data, "--password-stdin", stdin=CANARY)
    assert again.code == 1
    assert "user 'admin' exists" in again.err
    listed = barnabas("user", "ls", *data, "-J")
    assert listed.out.splitlines() == [
        '{"user": "admin", "mechanism": "SCRAM-SHA-256", "iterations": 4096}',
        '{"user": "admin", "mechanism": "SCRAM-SHA-512", "iterations": 4096}',
    ]
    keeper = tmp_path / "data" / "keeper.db"
    assert keeper.stat().st_mode & 0o777 == 0o600
    assert CANARY.encode() not in keeper.read_bytes()
    gone = barnabas("user", "delete", "admin", *data, "-y")
    assert gone.code == 0
    assert barnabas("user", "ls", *data, "-J").out == ""
    missing = barnabas("user", "delete", "admin", *data, "-y")
    assert missing.code == 3
    assert "no user 'admin'" in missing.err


def test_passwords_come_from_a_file_or_are_made(tmp_path: Path) -> None:
    data = ("--data", str(tmp_path / "data"))
    file = tmp_path / "password"
    file.write_text(f"{CANARY}\n")
    assert barnabas("user", "create", "a", *data, "--password-file", str(file)).code == 0
    made = barnabas("user", "create", "b", *data, "--generate")
    assert len(made.out.strip()) == 32
    changed = barnabas("user", "passwd", "b", *data, "--generate", "-m", "SCRAM-SHA-256")
    assert changed.out.strip() != made.out.strip()
    assert "b has a new password" in changed.err


@pytest.mark.parametrize(
    ("arguments", "stdin", "said"),
    [
        ((), "", "standard input is not a terminal"),
        (("--password-stdin",), "", "a password has 1 to"),
        (("--password-stdin", "--generate"), "x", "exclude each other"),
        (("--password", "canary"), "", "no such option"),
        (("--password-stdin", "--iterations", "100"), "x", "not in the range"),
    ],
)
def test_other_ways_are_refused(
    tmp_path: Path, arguments: tuple[str, ...], stdin: str, said: str
) -> None:
    ended = barnabas("user", "create", "a", "--data", str(tmp_path), *arguments, stdin=stdin)
    assert ended.code == 2
    assert said in ended.err.lower()


def test_a_running_broker_makes_changes_and_deletes_users(tmp_path: Path) -> None:
    with sasl_brokers(tmp_path) as broker:
        file = tmp_path / "client.properties"
        secret = tmp_path / "secret"
        secret.write_text(PASSWORD)
        file.write_text(
            f"bootstrap.servers={broker.bootstrap_servers}\nsecurity.protocol=SASL_PLAINTEXT\n"
            f"sasl.username={USER}\nsasl.password.file={secret}\n"
        )
        given = ("-F", str(file))
        made = barnabas(*given, "user", "create", "carol", "--password-stdin", stdin=CANARY)
        assert made.code == 0, made.err
        assert "carol" in barnabas(*given, "user", "ls").out
        other = tmp_path / "carol.properties"
        other.write_text(
            f"bootstrap.servers={broker.bootstrap_servers}\nsecurity.protocol=SASL_PLAINTEXT\n"
            f"sasl.username=carol\nsasl.password={CANARY}\n"
        )
        assert barnabas("-F", str(other), "topic", "ls").code == 0
        assert barnabas(*given, "user", "delete", "carol", "-y").code == 0
        refused = barnabas("-F", str(other), "topic", "ls")
        assert refused.code == 5
        assert "login as 'carol' failed" in refused.err
        assert CANARY not in refused.err + broker.log
        locked = barnabas("user", "ls", "--data", str(tmp_path / "data"))
        assert locked.code == 1
        assert "in use by another broker" in locked.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("-X", "sasl.password=canary", "topic", "ls"),
        ("-X", "sasl.jaas.config=canary", "topic", "ls"),
        ("up", "--ephemeral", "-X", "listener.name.a.plain.sasl.jaas.config=canary"),
    ],
)
def test_a_secret_on_the_command_line_is_refused(arguments: tuple[str, ...]) -> None:
    ended = barnabas(*arguments)
    assert ended.code == 2
    assert "can read a command line" in ended.err
    assert "canary" not in ended.err
