"""CRC-32C, the checksum of record batches, by the processor's own instruction where it has one.

In: bytes. Out: their checksum.
Not here: which bytes of a batch it covers (batch.py).

The `crc32c` package, on import, looks its own version up, which reads through everything that is
installed: 30 ms of a broker's start. Its extension module is all that is needed.
"""

from importlib.machinery import PathFinder
from typing import Protocol, cast

from barnabas.model.ports import Buffer


class Checksum(Protocol):
    """`value`: the checksum of the bytes before these."""

    def __call__(self, data: Buffer, value: int = 0, /) -> int: ...


def _load() -> Checksum:
    package = PathFinder.find_spec("crc32c")
    if package is not None:
        spec = PathFinder.find_spec("crc32c._crc32c", package.submodule_search_locations)
        if spec is not None and spec.loader is not None:
            module = spec.loader.create_module(spec)
            if module is not None:
                spec.loader.exec_module(module)
                return cast(Checksum, module.crc32c)
    # Put together in another way than it is today: then at the price of that look-up.
    from crc32c import crc32c

    return cast(Checksum, crc32c)


crc32c = _load()
