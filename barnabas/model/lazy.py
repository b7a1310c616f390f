"""Lets a package offer names and load the module of each name when the name is first used."""

from collections.abc import Callable, Mapping


def lazy_names(
    module: dict[str, object], where: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` for the module with these globals.

    `where` has the module that defines each name; a package of that name is the name itself.
    """

    def get(name: str) -> object:
        if name not in where:
            raise AttributeError(f"module {module['__name__']!r} has no attribute {name!r}")
        from importlib import import_module  # not at the start of every process

        holder = import_module(where[name])
        found: object = holder if where[name] == f"{module['__name__']}.{name}" else None
        if found is None:
            found = getattr(holder, name)
        module[name] = found  # the next use does not come here
        return found

    def names() -> list[str]:
        return [*module, *where]

    return get, names
