"""Reads sasl.jaas.config: users and passwords, as Kafka's clients and brokers get them.

In: text such as `org...PlainLoginModule required username="alice" password="secret";`.
Out: the options of the module. Nothing that the text names is loaded.
Always: an error does not repeat the text, which holds passwords.
"""

import re
from typing import NamedTuple

_FLAGS = ("required", "requisite", "sufficient", "optional")
_TOKEN = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|([^\s"=;]+)|([=;]))', re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_FORM = 'expected: MODULE required NAME="VALUE" ... ;'

PLAIN_MODULE = "PlainLoginModule"
SCRAM_MODULE = "ScramLoginModule"
OAUTHBEARER_MODULE = "OAuthBearerLoginModule"
_USER = "user_"


class JaasLogin(NamedTuple):
    """One login module, by the last part of its name, and its options."""

    module: str
    options: dict[str, str]

    def __repr__(self) -> str:
        return f"JaasLogin({self.module!r}, options={sorted(self.options)})"

    @property
    def users(self) -> dict[str, str]:
        """Of PLAIN on a broker: `user_alice="secret"`."""
        return {
            name.removeprefix(_USER): value
            for name, value in self.options.items()
            if name.startswith(_USER) and name != _USER
        }


def parse_jaas(text: str) -> JaasLogin:
    """ValueError says what is expected."""
    tokens: list[str | None] = []  # None: an equals sign
    position = 0
    ended = False
    while text[position:].strip():
        found = _TOKEN.match(text, position)
        if found is None or ended:
            raise ValueError(_FORM)
        position = found.end()
        if found[3] == ";":
            ended = True
        elif found[3] == "=":
            tokens.append(None)
        elif found[1] is not None:
            tokens.append(_ESCAPE.sub(r"\1", found[1]))
        else:
            tokens.append(found[2])
    if not ended or len(tokens) < 2 or tokens[0] is None or tokens[1] is None:
        raise ValueError(_FORM)
    if tokens[1].lower() not in _FLAGS or len(tokens) % 3 != 2:
        raise ValueError(_FORM)
    options: dict[str, str] = {}
    for index in range(2, len(tokens), 3):
        name, equals, value = tokens[index : index + 3]
        if name is None or equals is not None or value is None:
            raise ValueError(_FORM)
        options[name] = value
    return JaasLogin(tokens[0].rpartition(".")[2], options)
