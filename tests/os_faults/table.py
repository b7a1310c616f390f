"""The table of docs/DURABILITY.md: per call and kind of file, what each fault did.

In: outcomes. Out: lines of Markdown, put between two marks of the page.
"""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tests.os_faults.rounds import GOES_ON, OFFLINE, STOPPED, STOPS, UNMET, Outcome

PAGE = Path(__file__).parents[2] / "docs/DURABILITY.md"
BEGIN, END = "<!-- os-faults: begin -->", "<!-- os-faults: end -->"
WORDS = {GOES_ON: "goes on", STOPS: "stops", OFFLINE: "offline", STOPPED: "ends its stop"}


def lines(
    sites: dict[int, int], wanted: int, outcomes: list[Outcome], earlier: int = 0
) -> Iterable[str]:
    """`earlier`: how many of the outcomes were kept from other runs."""
    met = [outcome for outcome in outcomes if outcome.what != UNMET]
    clean = sum(not outcome.failed for outcome in met)
    for brokers, count in sites.items():
        yield f"- {'a lone broker' if brokers == 1 else f'{brokers} brokers'}: {count} call sites"
    parts = f", {earlier} of them in earlier runs, between which faults were mended"
    yield f"- {len(outcomes)} of {wanted} rounds played{parts if earlier else ''}"
    yield (
        f"- in {len(met)} of them the broker made the call and the fault occurred; {clean} of those"
        f" are clean, {len(met) - clean} failed"
    )
    yield ""
    yield "The numbers count call sites."
    yield ""
    for what, word in WORDS.items():
        yield f"- *{word}*: {what}"
    yield ""
    yield "| call | file | fault | a lone broker | one of three brokers |"
    yield "|---|---|---|---|---|"
    rows: dict[tuple[str, str, str], dict[int, Counter[str]]] = {}
    for outcome in met:
        key = (outcome.site.call, outcome.site.kind, outcome.action.name)
        what = f"**{outcome.failed.splitlines()[0][:80]}**" if outcome.failed else outcome.what
        rows.setdefault(key, {}).setdefault(outcome.brokers, Counter())[what] += 1
    for key, found in sorted(rows.items()):
        yield f"| {' | '.join(key)} | {_cell(found.get(1))} | {_cell(found.get(3))} |"


def _cell(found: Counter[str] | None) -> str:
    counted = () if found is None else found.most_common()
    return ", ".join(f"{count} {WORDS.get(what, what)}" for what, count in counted)


def write(sites: dict[int, int], wanted: int, outcomes: list[Outcome], earlier: int = 0) -> None:
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    middle = "\n".join(lines(sites, wanted, outcomes, earlier))
    PAGE.write_text(f"{before}{BEGIN}\n{middle}\n{END}{after}")
