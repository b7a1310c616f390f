"""The table of docs/DURABILITY.md: per call and kind of file, what each fault did.

In: outcomes. Out: lines of Markdown, put between two marks of the page.
"""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tests.os_faults.rounds import UNMET, Outcome

PAGE = Path(__file__).parents[2] / "docs/DURABILITY.md"
BEGIN, END = "<!-- os-faults: begin -->", "<!-- os-faults: end -->"


def lines(sites: dict[int, int], wanted: int, outcomes: list[Outcome]) -> Iterable[str]:
    met = [outcome for outcome in outcomes if outcome.what != UNMET]
    clean = sum(not outcome.failed for outcome in met)
    for brokers, count in sites.items():
        yield f"- {'a lone broker' if brokers == 1 else f'{brokers} brokers'}: {count} call sites"
    yield f"- {len(outcomes)} of {wanted} rounds played"
    yield f"- in {len(met)} of them the fault was met; {clean} of those are clean"
    yield ""
    yield "| brokers | call | file | fault | sites | what happens |"
    yield "|---|---|---|---|---|---|"
    rows: dict[tuple[int, str, str, str], Counter[str]] = {}
    for outcome in met:
        key = (outcome.brokers, outcome.site.call, outcome.site.kind, outcome.action.name)
        what = (
            f"**FAILED**: {outcome.failed.splitlines()[0][:80]}" if outcome.failed else outcome.what
        )
        rows.setdefault(key, Counter())[what] += 1
    for (brokers, call, kind, fault), found in sorted(rows.items()):
        total = sum(found.values())
        parts = found.most_common()
        text = parts[0][0] if len(parts) == 1 else "; ".join(f"{n}: {what}" for what, n in parts)
        yield f"| {brokers} | {call} | {kind} | {fault} | {total} | {text} |"


def write(sites: dict[int, int], wanted: int, outcomes: list[Outcome]) -> None:
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    middle = "\n".join(lines(sites, wanted, outcomes))
    PAGE.write_text(f"{before}{BEGIN}\n{middle}\n{END}{after}")
