"""The access rules in force on this broker: read from the keeper, and read again when they change.

In: settings, the keeper's nodes, its notifications, the state of the session. Out: decisions.
Always: a broker decides only by rules that it knows to be current: while its session with the
keeper is over, or a rule cannot be read, it allows nothing except to super users. A change holds
here when the request for it is answered, and on the other brokers when their watch fires.
Not here: what a request needs (broker/authorization/), the decision (security/acl/decisions.py).
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from barnabas.broker.security import rule_store
from barnabas.broker.security.denials import Denials
from barnabas.keeper.keeper import Event, Keeper, KeeperError, SessionState, Unavailable
from barnabas.model.errors import Code, Failed, KafkaError
from barnabas.security.acl.decisions import AclDecisions
from barnabas.security.acl.rule_nodes import LITERAL_CHANGES, PREFIXED_CHANGES
from barnabas.security.acl.rules import AclRule, AclRuleFilter
from barnabas.security.principal import parse_principals

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

AGAIN_MS = 500  # until unreadable rules are read again


class Authorizer:
    """Created with the broker if `authorizer.class.name` is set; loaded before it listens."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._loop = broker.loop
        config = broker.config
        try:
            super_users = parse_principals(config.super_users)
        except ValueError as error:
            raise Failed(Code.INVALID_CONFIG, f"super.users: {error}") from None
        self.decisions = AclDecisions(super_users, config.allow_everyone_if_no_acl_found)
        self.denials = Denials(broker.log, broker.clock.wall_ms)
        self.listeners: list[Callable[[], None]] = []
        """Called when rules have changed."""
        self._seen = (-1, -1)
        self._unread = False
        self._everything = False
        self._reading: asyncio.Task[None] | None = None
        self._suspended: asyncio.TimerHandle | None = None

    # Reading

    @staticmethod
    def read(keeper: Keeper) -> rule_store.StoredRules:
        """All rules; from now on the session is notified of changes."""
        rule_store.prepare(keeper)
        return rule_store.read_all(keeper)

    def take_all(self, found: rule_store.StoredRules) -> None:
        self._seen = found.seen
        self.decisions.load(rule for rules in found.rules.values() for rule in rules)
        self._stop_timer()
        self._broker.log.info("access rules loaded", rules=len(self.decisions.index))
        self._changed()

    def heard(self, news: Event | SessionState) -> None:
        """An event of the session."""
        if news is SessionState.SUSPENDED:
            if self._suspended is None:
                # The session may have ended by then, without a notification.
                timeout_ms = self._broker.config.zookeeper_session_timeout_ms
                self._suspended = self._loop.call_later(timeout_ms / 1000, self.unload)
        elif news is SessionState.EXPIRED:
            self.unload()
        elif news is SessionState.CONNECTED:
            self._stop_timer()
            self.read_again(everything=not self.decisions.loaded)
        elif news.path in (LITERAL_CHANGES, PREFIXED_CHANGES):
            self.read_again()

    def unload(self) -> None:
        self._stop_timer()
        if self.decisions.loaded:
            self._broker.log.warning("access rules unknown: only super users are served")
        self.decisions.unload()
        self._changed()

    def _stop_timer(self) -> None:
        if self._suspended is not None:
            self._suspended.cancel()
            self._suspended = None

    def read_again(self, *, everything: bool = False) -> None:
        self._unread = True
        self._everything = self._everything or everything
        if self._reading is None or self._reading.done():
            self._reading = self._loop.create_task(self._read())

    async def refresh(self) -> None:
        """Wait until the rules in the keeper are in force here."""
        self.read_again()
        assert self._reading is not None
        await asyncio.shield(self._reading)

    async def _read(self) -> None:
        while self._unread:
            self._unread = False
            try:
                if self._everything:
                    self.take_all(await self._broker.catalog.run(self.read))
                    self._everything = False
                    continue
                seen = self._seen
                found = await self._broker.catalog.run(
                    lambda keeper: rule_store.read_changes(keeper, seen)  # noqa: B023
                )
                if found is None:
                    self._unread = self._everything = True
                else:
                    self._take(found)
            except Unavailable as error:  # the session reconnects, or another one is opened
                self._broker.log.warning("access rules not read", reason=str(error))
                self._everything = True
                return
            except (KafkaError, KeeperError, ValueError) as error:
                # It might be a rule that denies.
                self._broker.log.error("access rules cannot be read", reason=str(error))
                self.unload()
                self._unread = self._everything = True
                await asyncio.sleep(AGAIN_MS / 1000)

    def _take(self, found: rule_store.StoredRules) -> None:
        self._seen = found.seen
        for pattern, rules in found.rules.items():
            self.decisions.replace(pattern, rules)
        if found.rules:
            self._changed()

    def _changed(self) -> None:
        if self._broker.coordination is not None:  # patterns may match other topics now
            self._broker.coordination.topics_changed("", of_names=True)
        for listener in self.listeners:
            listener()

    # Changing

    def rules(self, which: AclRuleFilter) -> list[AclRule]:
        return [rule for rule in self.decisions.index if which.matches(rule)]

    async def add(self, rules: Iterable[AclRule]) -> None:
        new = list(rules)
        await self._write(lambda keeper: rule_store.add_rules(keeper, new))
        self._broker.log.info("access rules added", rules=[str(rule) for rule in new[:20]])

    async def delete(self, filters: Sequence[AclRuleFilter]) -> list[list[AclRule]]:
        deleted: list[list[AclRule]] = []

        def delete(keeper: Keeper) -> None:
            nonlocal deleted
            deleted = rule_store.delete_rules(keeper, filters)

        await self._write(delete)
        gone = [str(rule) for rules in deleted for rule in rules]
        self._broker.log.info("access rules deleted", rules=gone[:20], count=len(gone))
        return deleted

    async def _write(self, write: Callable[[Keeper], None]) -> None:
        try:
            await self._broker.catalog.run(write)
        except KeeperError as error:
            raise Failed(Code.UNKNOWN_SERVER_ERROR, f"ACLs not changed: {error}") from None
        await self.refresh()

    async def stop(self) -> None:
        self._stop_timer()
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
