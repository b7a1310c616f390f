"""Regular expressions in linear time: what `re` finds, without its worst cases."""

import re
from random import Random

import pytest

from barnabas.security.regex import LinearRegex
from tests.share import examples


def supported(rng: Random) -> str:
    """One that repeats nothing that may be empty."""
    while True:
        found = pattern(rng)
        try:
            LinearRegex(found)
        except ValueError:
            continue
        return found


def pattern(rng: Random, depth: int = 0) -> str:
    chance = rng.random()
    if depth > 3 or chance < 0.35:
        return rng.choice(["a", "b", "c", ".", "[a-b]", "[^a]", r"\w", r"\."])
    if chance < 0.5:
        return pattern(rng, depth + 1) + pattern(rng, depth + 1)
    if chance < 0.6:
        return f"({pattern(rng, depth + 1)}|{pattern(rng, depth + 1)})"
    if chance < 0.7:
        return f"({pattern(rng, depth + 1)})"
    return f"(?:{pattern(rng, depth + 1)})" + rng.choice(["*", "+", "?", "*?", "+?", "{1,2}"])


@pytest.mark.parametrize("seed", range(5))
def test_the_whole_text_matches_if_re_says_so(seed: int) -> None:
    rng = Random(seed)
    for _ in range(examples(300)):
        text = "".join(rng.choice("abc.") for _ in range(rng.randrange(8)))
        expression = supported(rng)
        expected = re.fullmatch(expression, text) is not None
        assert LinearRegex(expression).matches(text) == expected, (expression, text)


@pytest.mark.parametrize("seed", range(5))
def test_groups_hold_what_the_groups_of_re_hold(seed: int) -> None:
    rng = Random(seed)
    for _ in range(examples(300)):
        text = "".join(rng.choice("abc") for _ in range(1, rng.randrange(2, 8)))
        expression = f"^({supported(rng)})({supported(rng)})$"
        found = re.search(expression, text)
        if found is None:
            continue
        first, groups = found[1], LinearRegex(expression).groups
        assert groups == found.re.groups
        assert LinearRegex(expression).replace(text, "<$1>") == f"<{first}>", (expression, text)


def test_a_pattern_that_makes_re_hang_is_quick() -> None:
    assert not LinearRegex("(a+)+b").matches("a" * 1_000)
    assert not LinearRegex("(a|a)*c").matches("a" * 1_000)
    assert not LinearRegex("^(.*?),(.*?),(.*?),(.*?),(.*?),(.*?)$").matches("a" * 2_000)


def test_replacements_are_javas() -> None:
    assert LinearRegex("(a)(b)").replace("ab", r"$2-$1-$0-\$1-$3-$12") == "b-a-ab-$1-$3-a2"
    assert LinearRegex("x").replace("axbx", "-") == "a-b-"
    assert LinearRegex("x*").replace("ab", "-") == "-a-b-"  # also where nothing is matched


@pytest.mark.parametrize(
    "text",
    ["(", ")", "a(b", "[a", "*", "a**+", "(?=a)", r"(a)\1", r"\b", "a++", "a{2", "a{3,2}",
     "a{1,1000}", "(a*)*", "(a|b?)+", "(^a|$){2}", "(?i)a", "[b-a]", "[a[b]]", "[a&&b]", "\\",
     "x" * 1_001],
)  # fmt: skip
def test_what_is_not_supported_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        LinearRegex(text)


def test_repeats_cannot_make_a_pattern_large() -> None:
    with pytest.raises(ValueError, match="too large"):
        LinearRegex("((a{100}){100}){100}")
