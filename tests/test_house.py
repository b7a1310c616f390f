"""The house is as its pages say: named files exist, folders are described, no file is too long."""

import re
from collections.abc import Iterator
from functools import cache
from inspect import cleandoc
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "barnabas"
PAGES = ("docs/ARCHITECTURE.md", "docs/GLOSSARY.md", "docs/PRODUCER.md")

LINES_MAX = 400
MODULES_MAX = 25
MANY_MODULES = ("wire/messages", "broker/handlers")  # one module per API

# Public class names that two modules have, and why.
SAME_NAME = dict.fromkeys(
    ("Admin", "Consumer", "PartitionConsumer", "Producer", "ShareConsumer", "Transaction"),
    "the blocking client has the names of the asyncio client: barnabas.sync",
) | {"AcknowledgeType": "the client's has no gap, which only a request has"}

_FILE = re.compile(r"(?<![\w*%./-])((?:[\w-]+/)*[\w*]+\.py)\b(?!/)")  # also lag_*.py
_DOCSTRING = re.compile(r'(?:#.*\n)*"""(.*?)"""', re.DOTALL)
_CLASS = re.compile(r"^class ([A-Za-z]\w*)", re.M)
_LISTED = re.compile(r"^(?:- )?[a-z_]+(?:, [a-z_]+)*: ", re.M)


@cache
def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def docstring(module: Path) -> str:
    """Without parsing the module: to parse all of them takes two seconds."""
    found = _DOCSTRING.match(module.read_text())
    return cleandoc(found[1]) if found else ""


def inside(module: Path) -> str:
    return module.relative_to(PACKAGE).as_posix()


def named_in_docstrings() -> Iterator[tuple[str, str, list[Path]]]:
    for module in modules():
        text = docstring(module)
        # From its own folder, from any folder above it, or from the root of the repository.
        parents = [module.parent, *module.parent.parents]
        places = parents[: parents.index(ROOT) + 1]
        yield from ((inside(module), name, places) for name in _FILE.findall(text))


def named_in_pages() -> Iterator[tuple[str, str, list[Path]]]:
    for page in PAGES:
        places = [PACKAGE, ROOT]
        if page.endswith("PRODUCER.md"):
            places += [PACKAGE / "client/producer", PACKAGE / "client"]
        yield from ((page, name, places) for name in _FILE.findall((ROOT / page).read_text()))


def test_every_file_named_in_a_docstring_or_page_exists() -> None:
    missing = [
        f"{where}: {name}"
        for named in (named_in_docstrings(), named_in_pages())
        for where, name, places in named
        if not any(any(place.glob(name)) for place in places)
    ]
    assert not missing


def test_every_folder_named_in_a_page_exists() -> None:
    missing = []
    for page in PAGES:
        for name in re.findall(r"`((?:[a-z_]+/)+)`", (ROOT / page).read_text()):
            places = [PACKAGE, ROOT]
            if not any((place / name).is_dir() for place in places):
                missing.append(f"{page}: {name}")
    assert not missing


def test_every_module_and_every_folder_says_what_is_in_it() -> None:
    silent = [inside(module) for module in modules() if not docstring(module)]
    folders = {module.parent for module in modules()}
    bare = [inside(folder) for folder in folders if not (folder / "__init__.py").is_file()]
    assert silent == bare == []


def test_an_init_that_lists_modules_lists_each_of_them() -> None:
    """One list that is half right misleads more than none."""
    missing = []
    for module in modules():
        text = docstring(module)
        if module.name != "__init__.py" or len(_LISTED.findall(text)) < 2:
            continue
        for other in sorted(module.parent.glob("*.py")):
            words = re.search(rf"(?<!\w){other.stem}(?!\w)", text)
            if not other.stem.startswith("__") and words is None:
                missing.append(f"{inside(module)}: {other.stem}")
    assert not missing


def test_a_module_is_short_enough_to_be_read() -> None:
    long = {
        inside(module): lines
        for module in modules()
        if (lines := len(module.read_text().splitlines())) > LINES_MAX
    }
    assert long == {}


def test_a_folder_has_few_enough_modules_to_be_looked_through() -> None:
    counts: dict[str, int] = {}
    for module in modules():
        folder = inside(module.parent)
        counts[folder] = counts.get(folder, 0) + (module.name != "__init__.py")
    assert {
        folder: n for folder, n in counts.items() if n > MODULES_MAX and folder not in MANY_MODULES
    } == {}


def test_a_class_name_means_one_thing() -> None:
    places: dict[str, list[str]] = {}
    for module in modules():
        if "wire/messages/" in inside(module):
            continue  # parts of messages have Kafka's names, and belong to their message
        for name in _CLASS.findall(module.read_text()):
            places.setdefault(name, []).append(inside(module))
    several = {name: found for name, found in places.items() if len(found) > 1}
    assert {name: found for name, found in several.items() if name not in SAME_NAME} == {}
    assert set(SAME_NAME) <= set(several), "a name in SAME_NAME is unique now: remove it there"


def test_a_decision_has_a_number_of_its_own() -> None:
    decisions = sorted((ROOT / "docs/adr").glob("*.md"))
    numbers = [int(each.name[:4]) for each in decisions]
    assert numbers == list(range(1, len(decisions) + 1))
    wrong = [
        each.name
        for each, number in zip(decisions, numbers, strict=True)
        if not each.read_text().startswith(f"# {number}. ")
    ]
    assert not wrong
