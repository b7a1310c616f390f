"""The checksum: its value, and what it must not load."""

import subprocess
import sys

import pytest

from barnabas.wire.checksum import crc32c


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_the_checksum_is_castagnolis(kind: type) -> None:
    assert crc32c(kind(b"123456789")) == 0xE306_9283
    assert crc32c(kind(b"")) == 0


def test_batches_load_without_looking_versions_up() -> None:
    """Reading what is installed, e-mail parser and all, would be a tenth of a broker's start."""
    path = f"import sys; sys.path[:] = {sys.path!r}; "
    program = "import barnabas.wire.records; print('email' in sys.modules)"
    # Without site-packages' own start-up code, which may load anything.
    result = subprocess.run(
        [sys.executable, "-I", "-S", "-c", path + program],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert result.stdout == "False\n"


def test_the_package_may_be_imported_beside_it() -> None:
    import crc32c as package

    assert package.crc32c(b"123456789") == crc32c(b"123456789")
