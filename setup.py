"""Compiles the hot loops where a compiler is at hand; pyproject.toml says everything else.

Every `NAME.pxd` under barnabas/ carries the types of the plain Python module NAME.py beside it.
With Cython and a C compiler the module is compiled; without either, the same source runs as it is,
only slower, and this file says so. `BARNABAS_PURE=1` asks for the plain modules.
"""

import os
import re
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).parent
# PEP 600: a wheel may ask for these libraries of the system.
SYSTEM_LIBRARIES = re.compile(rb"lib(c|m|pthread|dl|rt)\.so\.\d+|ld-linux.*")
GLIBC_MIN = 17  # the oldest that wheels are commonly made for


def say(line: str) -> None:
    print(f"barnabas: {line}", file=sys.stderr)


class BuildWhatCanBeBuilt(build_ext):
    """A loop that does not compile is left to the interpreter; the install goes on."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()
        self.compiled = 0

    def run(self) -> None:
        super().run()
        if self.compiled:
            say(f"{self.compiled} loops compiled")

    def build_extension(self, ext: Extension) -> None:
        try:
            super().build_extension(ext)
        except Exception as problem:
            # Optional extensions: setuptools goes on without the file.
            say(f"{ext.name} not compiled, its slower Python loop is used ({problem})")
        else:
            self.compiled += 1

    def copy_extensions_to_source(self) -> None:
        built = [
            ext
            for ext in self.extensions
            if Path(self.build_lib, self.get_ext_filename(self.get_ext_fullname(ext.name))).exists()
        ]
        self.extensions, every = built, self.extensions
        try:
            super().copy_extensions_to_source()
        finally:
            self.extensions = every


class PortableWheel(bdist_wheel):
    """A compiled wheel says which glibc it needs (manylinux), not only that it is for Linux."""

    def get_tag(self) -> tuple[str, str, str]:
        python, abi, platform = super().get_tag()
        built = Path(self.get_finalized_command("build").build_lib).rglob("*.so")
        glibc = needed_glibc([path.read_bytes() for path in built])
        if glibc is not None and platform.startswith("linux_") and not self.plat_name_supplied:
            platform = platform.replace("linux_", f"manylinux_2_{glibc}_", 1)
        return python, abi, platform


def needed_glibc(libraries: list[bytes]) -> int | None:
    """N of the glibc 2.N that all of them run with; None if they need something else, too."""
    found = [GLIBC_MIN]
    for library in libraries:
        for name in re.findall(rb"\0((?:lib|ld-)[\w+-]+\.so[.\d]*)(?=\0)", library):
            if not SYSTEM_LIBRARIES.fullmatch(name):
                return None
        versions = re.findall(rb"\0GLIBC_2\.(\d+)", library)
        if not versions:
            return None
        found += map(int, versions)
    return max(found) if libraries else None


def extensions() -> list[Extension]:
    if os.environ.get("BARNABAS_PURE"):
        return []
    modules = [path.with_suffix(".py") for path in sorted(ROOT.glob("barnabas/**/*.pxd"))]
    if not modules:
        return []
    try:
        from Cython.Build import cythonize
    except ImportError:
        say("Cython is not installed: the slower Python loops are used")
        return []
    wanted = [
        Extension(
            ".".join(module.relative_to(ROOT).with_suffix("").parts),
            [str(module.relative_to(ROOT))],
            optional=True,
            # No warnings: they are about code that Cython made. Errors are shown. No debugging
            # information: it would be nine tenths of the wheel, and a third of the time.
            extra_compile_args=["-O3", "-w", "-g0"],
        )
        for module in modules
    ]
    compiled: list[Extension] = cythonize(
        wanted,
        build_dir="build/cython",
        quiet=True,
        language_level=3,
        compiler_directives={"boundscheck": True, "wraparound": True},
    )
    return compiled


setup(
    ext_modules=extensions(),
    cmdclass={"build_ext": BuildWhatCanBeBuilt, "bdist_wheel": PortableWheel},
)
