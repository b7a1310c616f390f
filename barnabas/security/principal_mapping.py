"""The user name of a client with a certificate: `ssl.principal.mapping.rules`.

In: rules, a distinguished name. Out: the name of the user, or None: no rule applies.
Always: the first rule whose pattern matches the whole name decides. `DEFAULT` takes the name as it
is.
"""

from typing import NamedTuple

from barnabas.security.regex import LinearRegex

DEFAULT = "DEFAULT"
_RULE = "RULE:"


class MappingRule(NamedTuple):
    """`pattern`: None for DEFAULT."""

    pattern: LinearRegex | None = None
    replacement: str = ""
    case: str = ""

    def applied(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        if not self.pattern.matches(name):
            return None
        result = self.pattern.replace(name, self.replacement)
        return {"L": result.lower(), "U": result.upper()}.get(self.case, result)


class PrincipalMapping:
    """Rules, parsed once. ValueError says which rule is not valid."""

    def __init__(self, rules: str = DEFAULT) -> None:
        self.rules: list[MappingRule] = []
        rest = rules.strip()
        while rest:
            rule, rest = _first(rest)
            if rule is not None:
                self.rules.append(rule)

    def name_of(self, distinguished_name: str) -> str | None:
        for rule in self.rules:
            found = rule.applied(distinguished_name)
            if found is not None:
                return found
        return None


def _first(text: str) -> tuple[MappingRule | None, str]:
    """The first rule, and the text after the comma behind it."""
    if text.startswith(_RULE):
        pattern, at = _part(text, len(_RULE))
        replacement, at = _part(text, at)
        case = text[at : at + 1] if text[at : at + 1] in ("L", "U") else ""
        try:
            rule = MappingRule(LinearRegex(pattern), replacement, case)
        except ValueError as problem:
            raise ValueError(f"the pattern of {text[:at][:200]!r}: {problem}") from None
        return rule, _after(text, at + len(case))
    if text.startswith(DEFAULT):
        return MappingRule(), _after(text, len(DEFAULT))
    if text.startswith(","):
        return None, text[1:].lstrip()
    raise _unknown(text)


def _part(text: str, start: int) -> tuple[str, int]:
    """Up to the next slash that no backslash precedes, and the position after it."""
    at = start
    while at < len(text):
        if text[at] == "\\":
            at += 2
        elif text[at] == "/":
            return text[start:at], at + 1
        else:
            at += 1
    raise _unknown(text)


def _after(text: str, at: int) -> str:
    rest = text[at:].lstrip()
    if rest and not rest.startswith(","):
        raise _unknown(text)
    return rest[1:].lstrip()


def _unknown(text: str) -> ValueError:
    return ValueError(f"expected DEFAULT or RULE:pattern/replacement/[LU], not {text[:200]!r}")
