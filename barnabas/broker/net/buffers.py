"""Memory for requests and replies that are larger than one read, reused and bounded.

Always: all frames in progress together hold at most `bytes_max`, except one frame that may always
grow; otherwise frames that each need a little more would wait for each other forever. A frame that
has only announced its size gets no more than FIRST_SIZE, though a large one may start in a kept
buffer of LARGE_SIZE, of which there are few.
Why mapped memory and not byte arrays, which start 16 bytes into a page: the kernel copies into and
out of aligned memory with a fifth less of the broker's CPU per record (docs/adr/0012).
"""

import mmap
from collections.abc import Callable
from sys import getrefcount

FIRST_SIZE = 1 << 17
LARGE_SIZE = 1 << 20
HUGE_PAGE = 2 << 20
KEPT_MAX = {FIRST_SIZE: 32, LARGE_SIZE: 8}
PAGES_MAX = 8


class Buffers:
    """Buffers of the two usual sizes are kept for the next frame; others are freed."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes_out = 0
        self._kept: dict[int, list[memoryview]] = {size: [] for size in KEPT_MAX}
        self._waiting: list[Callable[[], None]] = []
        self._favoured: memoryview | None = None  # the one frame that may exceed the bound

    @property
    def crowded(self) -> bool:
        """Whether a connection waits for memory."""
        return bool(self._waiting)

    @property
    def bytes_out(self) -> int:
        return self._bytes_out

    def take(self, frame_size: int) -> memoryview | None:
        """A buffer to start a frame with; None when there is no memory, see `when_room`."""
        if self._bytes_out + FIRST_SIZE > self._bytes_max and self._bytes_out:
            return None
        kept = self._kept[FIRST_SIZE]
        if frame_size > FIRST_SIZE and self._bytes_out + LARGE_SIZE <= self._bytes_max:
            kept = self._kept[LARGE_SIZE] or kept
        buffer = kept.pop() if kept else mapped(FIRST_SIZE)
        self._bytes_out += len(buffer)
        return buffer

    def grow(self, buffer: memoryview, frame_size: int) -> memoryview | None:
        """A larger buffer with the same beginning; None when there is no memory."""
        size = LARGE_SIZE if len(buffer) < LARGE_SIZE else min(len(buffer) * 2, frame_size)
        if self._bytes_out + size - len(buffer) > self._bytes_max:
            if self._favoured is None:
                self._favoured = buffer
            if self._favoured is not buffer:
                return None
        if size == LARGE_SIZE:
            page = mapped(HUGE_PAGE)
            larger = page[:LARGE_SIZE]
            self._keep(page[LARGE_SIZE:])
        else:
            larger = mapped(size)
        larger[: len(buffer)] = buffer
        self._bytes_out += size - len(buffer)
        if self._favoured is buffer:
            self._favoured = larger
        self._keep(buffer)
        return larger

    def give_back(self, buffer: memoryview) -> None:
        self._bytes_out -= len(buffer)
        if self._favoured is buffer:
            self._favoured = None
        self._keep(buffer)
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for resume in waiting:
                resume()

    def _keep(self, buffer: memoryview) -> None:
        kept = self._kept.get(len(buffer))
        if kept is not None and len(kept) < KEPT_MAX[len(buffer)]:
            kept.append(buffer)

    def when_room(self, resume: Callable[[], None]) -> None:
        """Call once, after a buffer was returned."""
        self._waiting.append(resume)


class Pages:
    """Huge pages for replies of other brokers; a page is reused when no view of it exists."""

    def __init__(self) -> None:
        self._pages: list[mmap.mmap] = []

    def take(self, size: int) -> memoryview:
        """Memory with undefined contents; up to one page is kept for reuse."""
        if size > HUGE_PAGE:
            return memoryview(bytearray(size))
        for number in range(len(self._pages)):
            # One reference of the list, one of the argument.
            if getrefcount(self._pages[number]) == 1 + 1:
                return memoryview(self._pages[number])[:size]
        page = _map(HUGE_PAGE)
        if len(self._pages) < PAGES_MAX:
            self._pages.append(page)
        return memoryview(page)[:size]


def mapped(size: int) -> memoryview:
    """Zeros, page-aligned; returned to the system when there are no references to them."""
    return memoryview(_map(size))


def _map(size: int) -> mmap.mmap:
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if size >= HUGE_PAGE and hasattr(mmap, "MADV_HUGEPAGE"):
        try:
            memory.madvise(mmap.MADV_HUGEPAGE)
        except OSError:  # the kernel has no huge pages
            pass
    return memory
