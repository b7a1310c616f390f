"""Regular expressions over topic names: RE2's syntax, without surprises in time."""

import re
from random import Random

import pytest

from barnabas.coordinators.groups.consumer.patterns import Pattern
from barnabas.model.errors import Code, InvalidRequest

ATOMS = (
    "a", "b", "A", ".", "[ab]", "[^a-b0]", r"\.", r"\d", r"\w", r"\W", "(a|b)", "(?:ab)", "^", "$",
    "(?i:a)", "-", "[.-]", "(?P<n>ab)", r"\x61", "[a-]", "()", "(|a)",
)  # fmt: skip
REPEATS = ("", "", "", "*", "+", "?", "{1,2}", "{2}", "{0,}", "*?", "|")


@pytest.mark.parametrize("seed", range(10))
def test_the_same_names_match_as_with_python_s_own(seed: int) -> None:
    random = Random(seed)
    names = ["".join(random.choices("ab.-_01AB", k=random.randrange(7))) for _ in range(40)]
    for _ in range(200):
        parts = (random.choice(ATOMS) + random.choice(REPEATS) for _ in range(random.randrange(6)))
        text = "".join(parts)
        if text.count("(?P<n>") > 1:
            continue
        try:
            theirs = re.compile(text, re.ASCII)
        except re.error:  # it wants no repeated edges, and some repetitions twice
            continue
        ours = Pattern(text)
        for name in names:
            assert ours.matches(name) == bool(theirs.fullmatch(name)), (text, name)


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        (r"\Qa.b\E+", "a.bbb", True),
        (r"\Qa.b", "axb", False),
        ("[[:alpha:]]+", "abc", True),
        ("[[:^digit:]]", "1", False),
        ("(?i)Logs-.*", "LOGS-1", True),
        ("(?i)a|B", "b", True),
        ("a(?i)b|c", "aB", True),
        (r"\Aa\z", "a", True),
        ("a{,2}", "a", False),
        ("", "", True),
        ("", "a", False),
        ("[]]", "a", False),
        ("é|a", "a", True),
    ],
)
def test_what_python_writes_otherwise(pattern: str, name: str, matches: bool) -> None:
    assert Pattern(pattern).matches(name) is matches


@pytest.mark.parametrize(
    "pattern",
    [
        "(", ")", "[", "a{2,1}", "a{1001}", "*a", "a**", "a*+", "(?=a)", "(?!a)", "(?<=a)b",
        "(?<!a)b", r"\1", r"\b", r"\p{L}", "\\", "[z-a]", "[[:foo:]]", "(?", "(?P<n", "(?P<1>a)",
        r"\x{zz}", "(?x)a", "(" * 60 + ")" * 60, "x" * 2_000, "(((a{900}){900}){900})",
    ],
)  # fmt: skip
def test_what_is_refused_and_why(pattern: str) -> None:
    with pytest.raises(InvalidRequest, match="pattern") as refused:
        Pattern(pattern)
    assert refused.value.code is Code.INVALID_REGULAR_EXPRESSION


@pytest.mark.parametrize(
    "pattern", ["(a*)*b", "(a|a)*b", "(.*)*(.*)*x", "(a+)+(a+)+b", "a{0,500}" * 2]
)
def test_nothing_goes_back_and_forth(pattern: str) -> None:
    """Each takes a backtracking matcher longer than the universe has."""
    assert not Pattern(pattern).matches("a" * 248 + "c")


def test_a_pattern_that_would_cost_too_much_is_refused() -> None:
    random = Random(1)
    names = ["".join(random.choices("ab", k=249)) for _ in range(5_000)]
    with pytest.raises(InvalidRequest, match="too long to match"):
        Pattern("(a|b)*a(a|b){240}").matching(names)


def test_ten_thousand_topics_are_no_burden() -> None:
    names = [f"orders-{index}" for index in range(10_000)]
    assert len(Pattern("orders-.*7").matching(names)) == 1_000
