"""The command against a broker: groups looked at, moved, moved back, deleted."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import replace
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path
from typing import TextIO

import pytest
from confluent_kafka import Consumer, Producer

from barnabas.cli.app import run
from barnabas.client.blocking.admin import Admin
from barnabas.client.consumer.offset_lookup import Committed
from barnabas.client.groups.report import GroupReport
from barnabas.client.groups.text import description
from barnabas.model.ids import TopicPartition
from tests.cli.command import Ended
from tests.cli.test_topics import Shell
from tests.process import BrokerProcess
from tests.waiting import WAIT_S, until

pytestmark = pytest.mark.slow

RECORDS = 10


class Person(StringIO):
    """A terminal where somebody says yes, after a while in which something happens."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        super().__init__("y\n")
        self._meanwhile = meanwhile

    def isatty(self) -> bool:
        return True

    def readline(self, size: int | None = -1, /) -> str:  # type: ignore[override]
        self._meanwhile()
        return super().readline()


class Here(Shell):
    """The command within this process: the same but for the time a process takes to start."""

    def __call__(self, *arguments: str, stdin: str | bytes = "") -> Ended:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        return self.typed(TextIOWrapper(BytesIO(data)), *arguments)

    def typed(self, stdin: TextIO, *arguments: str) -> Ended:
        out, err = StringIO(), StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            patch.setenv("BARNABAS_BOOTSTRAP_SERVERS", self.servers)
            patch.setattr("sys.stdin", stdin)
            code = run(arguments)
        return Ended(code, out.getvalue(), err.getvalue())


@pytest.fixture
def shell(broker: BrokerProcess) -> Here:
    return Here(broker.bootstrap_servers)


@pytest.fixture
def group(shell: Shell, topic: str) -> str:
    """Ten records in each of two partitions; committed are 4 and 10."""
    name = f"group-of-{topic}"
    shell.out("topic", "create", topic, "-p", "2")
    produce(shell, topic, RECORDS, 0, 1)
    commit(shell, name, topic, {0: 4, 1: 10})
    return name


def produce(shell: Shell, topic: str, count: int, *partitions: int) -> None:
    producer = Producer({"bootstrap.servers": shell.servers})
    for partition in partitions:
        for _ in range(count):
            producer.produce(topic, b"x", partition=partition)
    assert producer.flush(WAIT_S) == 0


def commit(shell: Shell, group: str, topic: str, offsets: dict[int, int]) -> None:
    with Admin({"bootstrap.servers": shell.servers}) as admin:
        places = {TopicPartition(topic, number): offset for number, offset in offsets.items()}
        admin.alter_group_offsets(group, {at: Committed(place) for at, place in places.items()})


@contextmanager
def reading(shell: Shell, group: str, topic: str) -> Iterator[Consumer]:
    """A member that has its share."""
    options = {"bootstrap.servers": shell.servers, "group.id": group, "client.id": "reader"}
    member = Consumer({**options, "enable.auto.commit": False})
    member.subscribe([topic])
    until(lambda: member.poll(0.1) is None and len(member.assignment()) == 2, member.assignment)
    yield member
    member.close()


def offsets(shell: Shell, group: str) -> dict[int, int | None]:
    found = json.loads(shell.out("group", "describe", group, "-J"))
    return {each["partition"]: each["committed"] for each in found["partitions"]}


def test_groups_are_listed_with_their_lag(shell: Shell, group: str) -> None:
    rows = {row["group"]: row for row in json.loads(shell.out("group", "ls", "--output", "json"))}
    assert (rows[group]["state"], rows[group]["members"], rows[group]["lag"]) == ("Empty", 0, 6)
    assert shell.out("group", "ls").startswith("GROUP")


def test_a_group_is_described(shell: Shell, group: str, topic: str) -> None:
    with reading(shell, group, topic):
        found = json.loads(shell.out("group", "describe", group, "--output", "json"))
        assert (found["state"], found["assignor"], found["type"]) == ("Stable", "range", "classic")
        (member,) = found["members"]
        assert (member["client"], member["host"], member["topics"]) == (
            "reader",
            "127.0.0.1",
            [topic],
        )
        assert member["partitions"] == [[topic, 0], [topic, 1]]
        first, second = found["partitions"]
        assert (first["committed"], first["end"], first["lag"]) == (4, 10, 6)
        assert 0 < first["lag_ms"] < 3_600_000
        assert (second["lag"], second["lag_ms"], second["catch_up_ms"]) == (0, 0, 0)
        assert first["member"] == member["member"]
        text = shell.out("group", "describe", group)
    assert "Stable" in text
    assert "6 records, the oldest unread for" in text
    csv = shell.out("group", "describe", group, "--output", "csv").splitlines()
    assert csv[0] == "topic,partition,committed,end,lag,lag_ms,catch_up_ms"
    assert csv[1].startswith(f"{topic},0,4,10,6,")


def test_too_much_lag_is_an_exit_code(shell: Shell, group: str) -> None:
    assert shell("group", "describe", group, "--max-lag", "6").code == 0
    ended = shell("group", "describe", group, "--max-lag", "5")
    assert ended.code == 6
    assert "has 6 unread records, more than 5" in ended.err


def test_a_group_that_has_committed_nothing_is_not_taken_for_healthy(
    shell: Shell, group: str, topic: str
) -> None:
    """One that crashes before its first commit would pass every check."""
    fresh = f"{group}-fresh"
    with reading(shell, fresh, topic):
        ended = shell("group", "describe", fresh, "--max-lag", "9")
        assert ended.code == 6
        assert "10 unread records and no commit yet, more than 9" in ended.err
        assert "20 records (no commit yet)" in ended.out
        found = json.loads(shell.out("group", "describe", fresh, "-J"))
        assert (found["lag"], found["lag_max"], found["lag_known"]) == (20, 10, False)
        assert found["no_commit_yet"] == [[topic, 0], [topic, 1]]
        assert "no commit yet" in shell.out("group", "explain", fresh)
        rows = json.loads(shell.out("group", "ls", "--output", "json"))
        assert [row["lag"] for row in rows if row["group"] == fresh] == [20]
        assert shell("group", "describe", fresh, "--max-lag", "10").code == 0
    ended = shell("group", "describe", fresh, "--max-lag", "0")
    assert (ended.code, "is unknown" in ended.err) == (6, True)


def test_a_history_that_began_with_the_broker_says_so() -> None:
    known = GroupReport(
        "g", "Stable", generation=7, has_history=True, history_since_ms=1_700_000_000_000
    )
    line = "2023-11-14T22:13:20.000Z  the broker started; it knows nothing from before\n"
    assert line in description(known)
    for whole in (replace(known, generation=0), replace(known, history_since_ms=None)):
        assert "started" not in description(whole)


def test_a_group_that_is_not_there_is_not_found(shell: Shell, group: str) -> None:
    for verb in ("describe", "explain", "watch", "undo", "delete"):
        yes = ["-y"] if verb in ("undo", "delete") else []
        ended = shell("group", verb, group[:-1] + "x", *yes)
        assert ended.code == 3, ended
        if verb in ("describe", "explain", "watch"):
            assert f"did you mean {group[:-1]}" in ended.err


def test_a_group_moves_and_moves_back(shell: Shell, group: str, topic: str) -> None:
    ended = shell("group", "seek", group, "--to", "earliest", "--output", "json", "--yes")
    assert json.loads(ended.out) == [
        {"topic": topic, "partition": 0, "from": 4, "to": 0, "change": -4, "note": ""},
        {"topic": topic, "partition": 1, "from": 10, "to": 0, "change": -10, "note": ""},
    ]
    assert f"barnabas group undo {group}" in ended.err
    assert offsets(shell, group) == {0: 0, 1: 0}
    shell.out("group", "undo", group, "-y")
    assert offsets(shell, group) == {0: 4, 1: 10}
    shell.out("group", "undo", group, "-y")
    assert offsets(shell, group) == {0: 0, 1: 0}
    listed = shell.out("group", "ls")
    assert f"{group}.before-seek" not in listed
    assert f"{group}.before-seek" in shell.out("group", "ls", "--all")


def test_a_dry_run_moves_nothing(shell: Shell, group: str) -> None:
    assert "-4" in shell.out("group", "seek", group, "--to", "earliest", "--dry-run")
    assert offsets(shell, group) == {0: 4, 1: 10}
    assert shell("group", "undo", group, "-y").code == 3


def test_a_group_moves_to_an_offset_within_what_is_there(shell: Shell, group: str) -> None:
    shell.out("group", "seek", group, "--to", "7", "-y")
    assert offsets(shell, group) == {0: 7, 1: 7}
    ended = shell("group", "seek", group, "--to", "99", "-y")
    assert "99 is not there yet: the end is 10" in ended.out
    assert offsets(shell, group) == {0: 10, 1: 10}
    assert "nothing to change" in shell("group", "seek", group, "--to", "latest", "-y").err


def test_a_group_moves_to_a_time(shell: Shell, group: str, topic: str) -> None:
    between_ms = round(time.time() * 1000) + 1
    until(lambda: time.time() * 1000 > between_ms + 1, time.time)
    produce(shell, topic, 1, 0)
    shell.out("group", "seek", group, "--to", f"@{between_ms}", "-y")
    assert offsets(shell, group) == {0: 10, 1: 10}
    shell.out("group", "seek", group, "--to", "2020-01-01T00:00:00", "-y")
    assert offsets(shell, group) == {0: 0, 1: 0}


def test_a_group_moves_to_where_another_was(
    shell: Shell, group: str, topic: str, tmp_path: Path
) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text(shell.out("group", "describe", group, "--output", "csv"))
    copy = f"{group}-copy"
    shell.out("group", "seek", copy, "--to", str(file), "-y")
    assert offsets(shell, copy) == {0: 4, 1: 10}
    shell.out("group", "seek", copy, "--to", "-", "-y", stdin=f"{topic},1,3\n")
    assert offsets(shell, copy) == {0: 4, 1: 3}


def test_undo_forgets_what_was_not_there_before(shell: Shell, group: str, topic: str) -> None:
    fresh = f"{group}-fresh"
    assert shell("group", "seek", fresh, "--to", "latest", "-y").code == 3
    shell.out("group", "seek", fresh, "--to", "latest", "-t", f"{topic}:1", "-y")
    assert offsets(shell, fresh) == {1: 10}
    shell.out("group", "seek", fresh, "--to", "5", "-t", topic, "-y")
    assert offsets(shell, fresh) == {0: 5, 1: 5}
    shell.out("group", "undo", fresh, "-y")
    assert offsets(shell, fresh) == {1: 10}


def test_a_group_with_members_stays_where_it_is(shell: Shell, group: str, topic: str) -> None:
    with reading(shell, group, topic):
        for arguments in (("seek", group, "--to", "earliest", "-y"), ("delete", group, "--yes")):
            ended = shell("group", *arguments)
            assert ended.code == 1, ended
            assert "stop them first" in ended.err
    assert offsets(shell, group) == {0: 4, 1: 10}


def test_a_seek_that_is_refused_leaves_the_undo_of_the_last(
    shell: Here, group: str, topic: str
) -> None:
    """A member comes while the person thinks."""
    shell.out("group", "seek", group, "--to", "7", "-y")
    with ExitStack() as member:
        ended = shell.typed(
            Person(lambda: member.enter_context(reading(shell, group, topic))),
            *("group", "seek", group, "--to", "earliest"),
        )
        assert (ended.code, "stop them first" in ended.err) == (1, True)
    assert offsets(shell, group) == {0: 7, 1: 7}
    shell.out("group", "undo", group, "-y")
    assert offsets(shell, group) == {0: 4, 1: 10}


def test_undo_goes_back_to_what_was_there_when_the_group_moved(
    shell: Here, group: str, topic: str
) -> None:
    person = Person(lambda: commit(shell, group, topic, {0: 6}))
    assert shell.typed(person, "group", "seek", group, "--to", "earliest").code == 0
    assert offsets(shell, group) == {0: 0, 1: 0}
    shell.out("group", "undo", group, "-y")
    assert offsets(shell, group) == {0: 6, 1: 10}


@pytest.mark.parametrize("moved", [False, True])
def test_a_seek_that_was_cut_off_is_undone_only_if_it_moved_the_group(
    shell: Shell, group: str, topic: str, moved: bool
) -> None:
    shell.out("group", "seek", group, "--to", "7", "-y")
    commit(shell, f"{group}.before-seek-begun", topic, {0: 7, 1: 7})
    if moved:
        commit(shell, group, topic, {0: 1, 1: 1})
    shell.out("group", "undo", group, "-y")
    assert offsets(shell, group) == ({0: 7, 1: 7} if moved else {0: 4, 1: 10})
    assert "begun" not in shell.out("group", "ls", "--all")


def test_a_group_that_is_named_twice_is_deleted_once(shell: Shell, group: str) -> None:
    ended = shell("group", "delete", group, group, "-y")
    assert (ended.code, ended.err.count("is deleted")) == (0, 1)


def test_nobody_is_asked_where_there_is_no_terminal(shell: Shell, group: str) -> None:
    for arguments in (("seek", group, "--to", "earliest"), ("delete", group)):
        ended = shell("group", *arguments)
        assert (ended.code, "use -y" in ended.err) == (2, True)
        assert "-y" in shell.out("group", arguments[0], "--help")
    assert offsets(shell, group) == {0: 4, 1: 10}


def test_a_deleted_group_is_gone_with_what_was_kept_for_undo(shell: Shell, group: str) -> None:
    shell.out("group", "seek", group, "--to", "latest", "-y")
    shell.out("group", "delete", group, "--yes")
    assert group not in shell.out("group", "ls", "--all")
    shell.out("group", "delete", group, "--if-exists", "-y")


def test_a_group_that_nobody_reads_is_explained(shell: Shell, group: str) -> None:
    text = shell.out("group", "explain", group)
    assert "the group has no members, and 6 records unread" in text
    assert "remedy: start its consumers" in text
    shell.out("group", "seek", group, "--to", "latest", "-y")
    assert f"nothing is wrong with {group}" in shell.out("group", "explain", group)


@contextmanager
def watching(shell: Shell, *arguments: str) -> Iterator[Callable[[], str]]:
    command = [sys.executable, "-m", "barnabas", "-b", shell.servers, "group", "watch"]
    process = subprocess.Popen(
        [*command, *arguments, "-i", "0.1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline
    finally:
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=WAIT_S)
    assert (process.returncode, err) == (130, "")


def test_watch_says_each_change_on_a_line(shell: Shell, group: str, topic: str) -> None:
    with watching(shell, group, "-J") as line:
        first = json.loads(line())
        assert (first["state"], first["lag"]) == ("Empty", 6)
        commit(shell, group, topic, {0: 10})
        second = json.loads(line())
        assert (second["state"], second["lag"]) == ("Empty", 0)


def test_watch_writes_csv(shell: Shell, group: str) -> None:
    with watching(shell, group, "--output", "csv") as line:
        assert line() == "time_ms,group,state,generation,members,lag,lag_ms,catch_up_ms\n"
        assert line().split(",")[1:3] == [group, "Empty"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("seek", "g"), "--to"),
        (("seek", "g", "--to", "somewhere", "-y"), "expected earliest, latest"),
        (("seek", "g", "--to", "-", "-y"), "no offsets for group 'g'"),
        (("describe", ""), "a group needs a name"),
        (("describe", "g", "--max-lag", "-1"), "--max-lag"),
        (("watch", "g", "-i", "0"), "-i"),
        (("watch", "g", "-i", "nan"), "expected a number of seconds"),
        (("seek", "g", "--to", "latest"), "-y"),
        (("undo", "g"), "-y"),
        (("delete", "g"), "-y"),
        (("delete", "g", "", "-y"), "a group needs a name"),
        (("delete",), "GROUP"),
        (("descibe", "g"), "did you mean describe"),
    ],
)
def test_wrong_usage_is_said_in_one_line(
    shell: Shell, arguments: tuple[str, ...], says: str
) -> None:
    ended = shell("group", *arguments)
    assert ended.code == 2, ended
    assert says in ended.err
    assert ended.err.count("\n") == 1


def test_the_shell_completes_the_names_of_groups(shell: Shell, group: str) -> None:
    command = [sys.executable, "-m", "barnabas"]
    environment = {
        **os.environ,
        "_BARNABAS_COMPLETE": "bash_complete",
        "COMP_WORDS": f"barnabas -b {shell.servers} group describe {group[:-1]}",
        "COMP_CWORD": "5",
    }
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert f"plain,{group}" in ended.stdout.splitlines()
    environment["COMP_WORDS"] = f"barnabas -b 127.0.0.1:1 group describe {group[:-1]}"
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert (ended.stdout.strip(), ended.stderr) == ("", "")


def test_a_name_that_a_terminal_would_obey_is_shown_harmless(shell: Shell, topic: str) -> None:
    name = f"{topic}\x1b[31m\n\u202ered"
    shell.out("topic", "create", topic)
    commit(shell, name, topic, {0: 0})
    for verb in ("describe", "explain"):
        shown = shell.out("group", verb, name)
        assert f"{topic}\\x1b[31m\\n\\u202ered" in shown
        assert "\x1b" not in shown
    assert "\x1b" not in shell.out("group", "ls")
    assert json.loads(shell.out("group", "describe", name, "-J"))["group"] == name
    assert shell("group", "describe", "\udcff").code == 2


def test_a_topic_that_is_not_there_is_no_place_to_seek(shell: Shell, group: str) -> None:
    assert shell("group", "seek", group, "--to", "latest", "-t", "no-such-topic", "-y").code == 3
    ended = shell("group", "seek", group, "--to", "latest", "-t", "t:x", "-y")
    assert (ended.code, "expected TOPIC or TOPIC:0,1,2" in ended.err) == (2, True)
