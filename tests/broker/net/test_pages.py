"""Memory for answers, which is lent again when nobody refers to what it held."""

from barnabas.broker.net.buffers import HUGE_PAGE, PAGES_MAX, Pages


def test_a_page_is_lent_again_when_nobody_has_a_view_of_it() -> None:
    pages = Pages()
    answer = pages.take(1000)
    answer[:5] = b"first"
    assert len(answer) == 1000
    part = answer[1:3]
    del answer
    other = pages.take(1000)
    other[:5] = b"other"
    assert bytes(part) == b"ir"
    del part
    assert bytes(pages.take(5)) == b"first", "the same page, as it was left"
    assert bytes(other[:5]) == b"other"


def test_what_is_in_use_is_never_lent() -> None:
    pages = Pages()
    lent = [pages.take(100) for _ in range(3 * PAGES_MAX)]
    for number, each in enumerate(lent):
        each[0] = number
    assert [each[0] for each in lent] == list(range(3 * PAGES_MAX))


def test_more_than_a_page_is_memory_of_its_own() -> None:
    pages = Pages()
    large = pages.take(HUGE_PAGE + 1)
    assert len(large) == HUGE_PAGE + 1
    assert not any(large[:100])
