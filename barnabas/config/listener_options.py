"""Options of one listener: `listener.name.NAME.OPTION` wins over `OPTION` for this listener.

In: names and layers. Out: the option that a name sets, and the settings of one listener.
Always: NAME is in lower case, as in Kafka. Between NAME and OPTION there may be a SASL mechanism,
in lower case too.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from barnabas.config.option import Option, invalid, nearest
from barnabas.config.resolve import Layers

PREFIX = "listener.name."
_MECHANISMS = ("plain", "scram-sha-256", "scram-sha-512", "oauthbearer", "gssapi")
_PER_LISTENER = ("ssl.", "sasl.", "connections.max.reauth.ms", "max.connection.creation.rate")


class ListenerOptionName(NamedTuple):
    """`listener.name.external.scram-sha-512.sasl.jaas.config`, in its parts."""

    listener: str
    mechanism: str
    option: str


def split_name(name: str) -> ListenerOptionName:
    """The parts of a name that starts with PREFIX."""
    listener, _, option = name.removeprefix(PREFIX).partition(".")
    first, _, rest = option.partition(".")
    if first in _MECHANISMS:
        return ListenerOptionName(listener, first, rest)
    return ListenerOptionName(listener, "", option)


def check_name(name: str, options: Iterable[str]) -> str:
    """The name of the option that `listener.name.NAME.OPTION` sets; INVALID_CONFIG if a listener
    cannot have that option of its own."""
    listener, _, option = split_name(name)
    known = {each: None for each in options if each.startswith(_PER_LISTENER)}
    if not listener or listener != listener.lower():
        raise invalid(
            f"broker option {name[:100]!r}: write the name of the listener in lower case, as in"
            f" {PREFIX}external.ssl.client.auth"
        )
    if option not in known:
        raise invalid(
            f"broker option {name[:100]!r}: a listener has no option {option[:100]!r} of its own"
            f"{nearest(option, known)}"
        )
    return option


def renamed(option: Option[Any], name: str) -> Option[Any]:
    """The option under the name that a listener gives it, for messages and descriptions."""
    return Option(name, option.kind, option.default, option.scope, option.needs_restart, option.doc)


def settings_of(layers: Layers, listener: str, mechanism: str = "") -> dict[str, str]:
    """The options that are set for this listener, by their names without the prefix."""
    start = f"{PREFIX}{listener.lower()}." + (f"{mechanism.lower()}." if mechanism else "")
    found: dict[str, str] = {}
    for _, texts in reversed(layers.by_source):
        for name, text in texts.items():
            if name.startswith(start):
                found[name.removeprefix(start)] = text
    return found
