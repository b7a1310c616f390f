"""Kafka's broker options that Barnabas does not declare, described for tools that expect them.

In: the tables of kafka_table.py and kafka_table_security.py. Out: options with Kafka's name, type
and default, and with a text that says why they have no effect.
Always: none of them has an effect; which are ignored and which are refused: unsupported.py.
Imported when a broker is described or gets one of these options, not at start.
"""

from collections.abc import Iterator
from typing import Any

from barnabas.config.kafka_table import TABLE
from barnabas.config.kafka_table_security import TABLE as SECURITY_TABLE
from barnabas.config.kinds import (
    Bool,
    ConfigType,
    Float,
    Int,
    Kind,
    List,
    Long,
    Password,
    Text,
)
from barnabas.config.option import Option, Scope
from barnabas.config.unsupported import is_refused

_NUMBER_MAX = 1.7976931348623157e308
_NO_DEFAULT = "-"
_EMPTY = "''"

_REASONS = {
    "Kerberos (GSSAPI) is not supported: use SCRAM, OAUTHBEARER or certificates.": (
        "sasl.kerberos.",
    ),
    "Java classes cannot be loaded: a principal is the user that logged in, or comes from"
    " ssl.principal.mapping.rules.": ("principal.builder.",),
    "Java classes cannot be loaded: users are in the keeper (`barnabas user create`), in"
    " sasl.jaas.config, or in the tokens of OAUTHBEARER.": (
        "sasl.client.callback.", "sasl.login.callback.", "sasl.login.class",
        "sasl.oauthbearer.jwt.", "sasl.server.callback.",
    ),
    "A broker gets no tokens from an identity provider: between brokers, use SCRAM, PLAIN or"
    " certificates.": (
        "sasl.login.", "sasl.oauthbearer.assertion.", "sasl.oauthbearer.client.",
        "sasl.oauthbearer.scope", "sasl.oauthbearer.token.",
    ),
    "Keys that could not be fetched are fetched again, at most once a minute, when a token needs"
    " them.": ("sasl.oauthbearer.jwks.endpoint.retry.",),
    "Expired tokens are refused at once, and deleted when another is created.": (
        "delegation.token.expiry.",
    ),
    "OpenSSL does TLS, not Java.": ("security.providers", "ssl."),
    "Tiered storage is not supported.": ("follower.fetch.last.", "log.local.", "remote."),
    "Java classes cannot be loaded.": (
        "alter.config.policy.", "client.quota.", "create.topic.policy.",
        "kafka.metrics.", "metric.reporters",
    ),
    "Brokers use a keeper, not a quorum.": (
        "broker.heartbeat.", "broker.session.", "controller.listener.", "controller.quorum.",
        "initial.broker.", "metadata.", "process.roles", "sasl.mechanism.controller.",
    ),
    "Two-phase commit is not supported.": ("transaction.two.",),
    "One event loop handles requests.": (
        "background.threads", "group.coordinator.background.", "group.coordinator.threads",
        "num.io.", "num.network.",
    ),
}  # fmt: skip
_OTHER_REASON = "Barnabas has nothing that this option tunes."


class JavaClass(Text):
    """The name of a class."""

    __slots__ = ()
    type = ConfigType.CLASS


class Short(Int):
    """A whole number of 16 bits."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(-0x8000, 0x7FFF)
        self.type = ConfigType.SHORT


_KINDS: dict[str, Kind[Any]] = {
    "boolean": Bool(),
    "class": JavaClass(),
    "double": Float(-_NUMBER_MAX, _NUMBER_MAX),
    "int": Int(),
    "list": List(),
    "long": Long(),
    "password": Password(),
    "short": Short(),
    "string": Text(),
}


def reason(name: str) -> str:
    """Why an option of Kafka has no effect here."""
    for text, prefixes in _REASONS.items():
        if name.startswith(prefixes):
            return text
    return _OTHER_REASON


def ignored_option(name: str) -> Option[Any]:
    """The option with an ignored name; a name that the tables do not have accepts any text."""
    return OPTIONS.get(name) or _option(name, "string", _NO_DEFAULT, True, "")


def _option(name: str, kind: str, default: str, dynamic: bool, meaning: str) -> Option[Any]:
    checked = _KINDS[kind]
    value = None if default == _NO_DEFAULT else checked.parse("" if default == _EMPTY else default)
    fate = "Not supported" if is_refused(name) else "No effect"
    return Option(
        name=name,
        kind=checked,
        default=value,
        scope=Scope.BROKER,
        needs_restart=not dynamic,
        doc=f"{meaning} {fate}: {reason(name)}".strip(),
    )


def _read(table: str) -> Iterator[Option[Any]]:
    head: list[str] = []
    meaning: list[str] = []
    for line in [*table.splitlines(), ""]:
        if line.startswith("    "):  # the head of an option with a long default goes on
            head += line.split()
        elif line.startswith("  "):
            meaning.append(line.strip())
        else:
            if head:
                name, kind, default, *flags = head
                yield _option(name, kind, default, "dynamic" in flags, " ".join(meaning))
            head, meaning = line.split(), []


OPTIONS = {option.name: option for table in (TABLE, SECURITY_TABLE) for option in _read(table)}
