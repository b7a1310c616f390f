"""Denied requests: an audit log with a limited rate, and the last ones for people who ask.

In: each denial. Out: log lines `access denied`, and a ring of the last 1,000.
Always: a repeated denial is counted, not logged again, for REPEAT_MS; a client that asks for many
names writes at most LINES_PER_SECOND lines a second. The memory is bounded: text of clients is cut.
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from barnabas.security.acl.explain import AclQuestion
from barnabas.security.acl.rules import AclRule, word
from barnabas.security.principal import Principal
from barnabas.system.logs import Logger

KEPT_MAX = 1_000
REPEAT_MS = 60_000
REPEATS_MAX = 1_000  # denials whose repeats are counted
LINES_PER_SECOND = 20
TEXT_LENGTH_MAX = 300


class Denial(NamedTuple):
    """One denied request. `named`: the client gave the name itself, not an id."""

    at_ms: int
    question: AclQuestion
    api: str
    client_id: str
    rule: AclRule | None
    named: bool


class Denials:
    """Of one broker, since its start."""

    def __init__(self, log: Logger, wall_ms: Callable[[], int]) -> None:
        self._log = log
        self._wall_ms = wall_ms
        self.last: deque[Denial] = deque(maxlen=KEPT_MAX)
        self.count = 0
        self._repeats: dict[AclQuestion, tuple[int, int]] = {}  # when it was logged; since then
        self._second = 0
        self._lines = 0
        self._dropped = 0

    def add(
        self,
        question: AclQuestion,
        api: str,
        client_id: str,
        rule: Callable[[AclQuestion], AclRule | None],
        *,
        named: bool = True,
    ) -> None:
        """`rule` finds the rule that denies; it is asked only for denials that are kept."""
        self.count += 1
        now_ms = self._wall_ms()
        cut = question._replace(
            principal=Principal(
                question.principal.type[:TEXT_LENGTH_MAX], question.principal.name[:TEXT_LENGTH_MAX]
            ),
            name=question.name[:TEXT_LENGTH_MAX],
        )
        logged_ms, repeated = self._repeats.get(cut, (0, 0))
        if logged_ms and 0 <= now_ms - logged_ms < REPEAT_MS:
            self._repeats[cut] = logged_ms, repeated + 1
            return
        if not self._may_log(now_ms):
            return
        self._repeats.pop(cut, None)
        if len(self._repeats) >= REPEATS_MAX:
            del self._repeats[next(iter(self._repeats))]
        self._repeats[cut] = now_ms, 0
        denial = Denial(now_ms, cut, api, client_id[:TEXT_LENGTH_MAX], rule(question), named)
        self.last.append(denial)
        values: dict[str, object] = {
            "principal": str(cut.principal),
            "host": cut.host,
            "operation": word(cut.operation),
            "resource": word(cut.type),
            "name": cut.name,
            "api": api,
            "client": denial.client_id,
            "rule": str(denial.rule) if denial.rule is not None else "none allows it",
        }
        if repeated:
            values["repeated"] = repeated
        if self._dropped:
            values["others_not_logged"], self._dropped = self._dropped, 0
        self._log.warning("access denied", **values)

    def _may_log(self, now_ms: int) -> bool:
        if now_ms // 1000 != self._second:
            self._second, self._lines = now_ms // 1000, 0
        self._lines += 1
        if self._lines > LINES_PER_SECOND:
            self._dropped += 1
            return False
        return True
