"""A disk in memory that remembers what was synced, and can lose the rest.

In: the Disk port. Out: the same bytes, until `crash` rolls back what no sync made durable.
Always: what a file or directory sync covered survives; anything else may or may not, byte
ranges in whole sectors, names one change at a time (a rename is one change: as on every
file system with a journal, a file is under its old name or its new one). A kill of the process
alone loses nothing but its open files.
"""

from random import Random
from typing import Any, NamedTuple

from barnabas.model.ports import Buffer

SECTOR = 512
CAPACITY = 1 << 40


class Node:
    """A file: its bytes now, and its bytes as of the last sync."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.synced = b""
        self.modified_ms = 0
        self.clean_only_in_memory: set[int] = set()  # sectors that no sync will write any more

    def sync(self) -> None:
        old, new = self.synced, bytes(self.data)
        if self.clean_only_in_memory:
            data = bytearray(new)
            for sector in self.clean_only_in_memory:
                start, end = sector * SECTOR, min((sector + 1) * SECTOR, len(new))
                if start < end:
                    data[start:end] = old[start:end].ljust(end - start, b"\0")
            new = bytes(data)
        self.synced = new

    def lose_dirty(self) -> None:
        """As Linux: after a failed sync the pages count as written, and are not on the disk."""
        old, new = self.synced, bytes(self.data)
        for start in range(0, len(new), SECTOR):
            if old[start : start + SECTOR] != new[start : start + SECTOR]:
                self.clean_only_in_memory.add(start // SECTOR)

    def survivor(self, rng: Random) -> bytearray:
        """What a power loss leaves: each unsynced sector old, new or (beyond the old end) zeros."""
        old, new = self.synced, bytes(self.data)
        if old == new:
            return bytearray(old)
        length = rng.choice((len(old), len(new), rng.randint(*sorted((len(old), len(new))))))
        result = bytearray(length)
        for start in range(0, length, SECTOR):
            end = min(start + SECTOR, length)
            source = old if old[start:end] == new[start:end] else rng.choice((old, new))
            piece = source[start:end]
            result[start : start + len(piece)] = piece
        return result


class Died(Exception):
    """The process ended where a test told it to."""


class Change(NamedTuple):
    """One change of a directory that no sync has covered yet."""

    name: str
    node: Node | None  # None: a directory
    old: str = ""  # its name before, if it was renamed
    gone: bool = False

    def apply(self, names: dict[str, Node | None]) -> None:
        if self.gone:
            if names.get(self.name) is self.node:
                names.pop(self.name, None)
            return
        if self.old and names.get(self.old) is self.node:
            names.pop(self.old, None)
        names[self.name] = self.node


class SimulatedFile:
    """An open file of the simulated disk."""

    def __init__(self, disk: "SimulatedDisk", path: str, node: Node) -> None:
        self._disk = disk
        self._node = node
        self.path = path
        self.closed = False

    def fileno(self) -> int:
        raise OSError(f"{self.path} is in memory")

    def size(self) -> int:
        return len(self._node.data)

    def cached(self, position: int, length: int) -> bool:
        return True

    def read(self, position: int, length: int) -> bytes:
        assert not self.closed, f"{self.path} is closed"
        self._disk.reads += 1
        self._disk.bytes_read += length
        with memoryview(self._node.data) as data:
            return bytes(data[position : position + length])

    def write(self, position: int, data: Buffer) -> None:
        assert not self.closed, f"{self.path} is closed"
        node, length, disk = self._node, len(data), self._disk
        disk.step()
        allowed = disk._faults.pop(self.path, length) if disk._faults else length
        if position > len(node.data):
            node.data.extend(bytes(position - len(node.data)))
        if allowed < length:
            data = data[:allowed]
        node.data[position : position + len(data)] = data
        node.modified_ms = disk.wall_ms
        if node.clean_only_in_memory:
            node.clean_only_in_memory.difference_update(
                range(position // SECTOR, (position + allowed) // SECTOR + 1)
            )
        if allowed < length:
            raise OSError(28, "no space left on the simulated disk", self.path)

    def truncate(self, length: int) -> None:
        data = self._node.data
        self._disk.step()
        if length < len(data):
            del data[length:]  # BufferError while a mapping is alive: on a real disk, SIGBUS
        else:
            data.extend(bytes(length - len(data)))

    def map(self, length: int) -> memoryview:
        assert length <= len(self._node.data), "a mapping never goes past the end"
        return memoryview(self._node.data)[:length]

    def sync(self) -> None:
        assert not self.closed, f"{self.path} is closed"
        self._disk.step()
        self._disk.syncs.append(self.path)
        if self._disk.full:  # as with delayed allocation: found when the pages are written
            self._node.lose_dirty()
            raise OSError(28, "no space left on the simulated disk", self.path)
        if self.path in self._disk.failing_syncs:
            self._disk.failing_syncs.discard(self.path)
            self._node.lose_dirty()
            raise OSError(5, "sync failed on the simulated disk", self.path)
        self._node.sync()

    def close(self) -> None:
        self.closed = True


class SimulatedDisk:
    """Directories are dicts of names; each also knows its names as of its last sync."""

    def __init__(self) -> None:
        self._directories: dict[str, dict[str, Node | None]] = {"/": {}}  # None: a directory
        self._synced: dict[str, dict[str, Node | None]] = {"/": {}}
        self._changes: dict[str, list[Change]] = {}  # of names, per directory, since its sync
        self.wall_ms = 0  # the time that files are stamped with
        self.steps = 0  # changes so far, of files and names
        self.stop_at = -1  # the step at which the process dies
        self._faults: dict[str, int] = {}
        self._closed_paths: set[str] = set()
        self.failing_syncs: set[str] = set()
        self.full = False  # every sync of a file finds no room, and every replacement of one
        self.reads = 0
        self.bytes_read = 0
        self.opened: list[str] = []
        self.syncs: list[str] = []

    # --- the port ------------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False) -> SimulatedFile:
        if path in self._closed_paths:
            raise OSError(24, "too many open files of the simulated disk", path)
        directory, name = self._split(path)
        node = directory.get(name)
        if node is None:
            if name in directory:
                raise IsADirectoryError(path)
            if not create:
                raise FileNotFoundError(path)
            self.step()
            node = directory[name] = Node()
            node.modified_ms = self.wall_ms
            self._changed(path, name, node)
        self.opened.append(path)
        return SimulatedFile(self, path, node)

    def open_files(self) -> int:
        return 0  # they cost nothing here

    def read_file(self, path: str) -> bytes:
        return bytes(self._node(path).data)

    def replace_file(self, path: str, data: bytes) -> None:
        if self.full:
            raise OSError(28, "no space left on the simulated disk", path)
        node = Node()
        node.data = bytearray(data)
        node.synced = data
        directory, name = self._split(path)
        self.step()
        node.modified_ms = self.wall_ms
        directory[name] = node
        parent = path.rpartition("/")[0] or "/"
        self._synced[parent][name] = node
        changes = self._changes.get(parent, [])
        changes[:] = [each for each in changes if name not in (each.name, each.old)]

    def exists(self, path: str) -> bool:
        parent, _, name = path.rpartition("/")
        return name in self._directories.get(parent or "/", {})

    def size(self, path: str) -> int:
        return len(self._node(path).data)

    def modified_ms(self, path: str) -> int:
        return self._node(path).modified_ms

    def set_modified_ms(self, path: str, wall_ms: int) -> None:
        self._node(path).modified_ms = wall_ms

    def list(self, path: str) -> list[str]:
        if path not in self._directories:
            raise NotADirectoryError(path) if self.exists(path) else FileNotFoundError(path)
        return sorted(self._directories[path])

    def make_directory(self, path: str) -> None:
        parent = ""
        for name in path.strip("/").split("/"):
            names = self._directories[parent or "/"]
            if name not in names:
                self._changed(f"{parent}/{name}", name, None)
            if names.setdefault(name, None) is not None:
                raise FileExistsError(path)
            parent = f"{parent}/{name}"
            self._directories.setdefault(parent, {})
            self._synced.setdefault(parent, {})

    def rename(self, old: str, new: str) -> None:
        source, old_name = self._split(old)
        target, new_name = self._split(new)
        if old_name not in source:
            raise FileNotFoundError(old)
        self.step()
        node = target[new_name] = source.pop(old_name)
        if source is target:
            self._changed(new, new_name, node, old=old_name)
        else:
            self._changed(old, old_name, node, gone=True)
            self._changed(new, new_name, node)
        tables: tuple[dict[str, Any], ...] = (self._directories, self._synced, self._changes)
        for table in tables:
            for path in [path for path in table if path == old or path.startswith(old + "/")]:
                table[new + path[len(old) :]] = table.pop(path)

    def remove(self, path: str) -> None:
        parent, _, name = path.rpartition("/")
        names = self._directories.get(parent, {})
        if name in names:
            self.step()
            self._changed(path, name, names.pop(name), gone=True)

    def remove_tree(self, path: str) -> None:
        directory, name = self._split(path)
        if name not in directory:
            raise FileNotFoundError(path)
        self._changed(path, name, directory.pop(name), gone=True)
        for table in (self._directories, self._synced):
            for each in [each for each in table if each == path or each.startswith(path + "/")]:
                del table[each]

    def sync_directory(self, path: str) -> None:
        self.step()
        self.syncs.append(path)
        self._synced[path] = dict(self._directories[path])
        self._changes.pop(path, None)

    def usage(self, path: str) -> tuple[int, int]:
        nodes = (node for directory in self._directories.values() for node in directory.values())
        used = sum(len(node.data) for node in nodes if node is not None)
        return CAPACITY, CAPACITY - used

    # --- faults --------------------------------------------------------------------------------

    def fail_write(self, path: str, after_bytes: int) -> None:
        """The next write to `path` stops after so many bytes, as on a full disk."""
        self._faults[path] = after_bytes

    def fail_open(self, path: str) -> None:
        """Opening `path` fails until `heal`, as when file descriptors run out."""
        self._closed_paths.add(path)

    def fail_sync(self, path: str) -> None:
        """The next sync of `path` fails, once."""
        self.failing_syncs.add(path)

    def heal(self) -> None:
        """No fault waits any more."""
        self.full = False
        self.failing_syncs.clear()
        self._faults.clear()
        self._closed_paths.clear()

    def step(self) -> None:
        """Something is about to change: the process may have died just before."""
        if self.steps == self.stop_at:
            raise Died(f"at step {self.steps}")
        self.steps += 1

    def _changed(
        self, path: str, name: str, node: Node | None, *, old: str = "", gone: bool = False
    ) -> None:
        parent = path.rpartition("/")[0] or "/"
        self._changes.setdefault(parent, []).append(Change(name, node, old, gone))

    def kill(self) -> "SimulatedDisk":
        """The disk after the process died: every write is there, its open files are not."""
        after = SimulatedDisk()
        after.wall_ms = self.wall_ms
        copies: dict[int, Node] = {}

        def copy(node: Node | None) -> Node | None:
            if node is None:
                return None
            if id(node) not in copies:
                fresh = copies[id(node)] = Node()
                fresh.data, fresh.synced = bytearray(node.data), node.synced
                fresh.modified_ms = node.modified_ms
                fresh.clean_only_in_memory = set(node.clean_only_in_memory)
            return copies[id(node)]

        for table, target in (
            (self._directories, after._directories),
            (self._synced, after._synced),
        ):
            for path, names in table.items():
                target[path] = {name: copy(node) for name, node in names.items()}
        for path, changes in self._changes.items():
            after._changes[path] = [each._replace(node=copy(each.node)) for each in changes]
        return after

    def crash(self, rng: Random) -> "SimulatedDisk":
        """The disk after a power loss; this one is gone."""
        after = SimulatedDisk()
        after.wall_ms = self.wall_ms
        after._directories = {}
        after._synced = {}
        self._crash_directory("/", after, rng)
        return after

    def _crash_directory(self, path: str, after: "SimulatedDisk", rng: Random) -> None:
        names = dict(self._synced.get(path, {}))
        changes = self._changes.get(path, [])
        # Some journals keep the order of changes, some do not.
        kept = rng.randint(0, len(changes)) if rng.random() < 0.5 else None
        for number, change in enumerate(changes):
            if number < kept if kept is not None else rng.random() < 0.5:
                change.apply(names)
        after._directories[path] = {}
        for name, node in sorted(names.items()):
            if node is None:
                after._directories[path][name] = None
                child = f"{path.rstrip('/')}/{name}"
                self._crash_directory(child, after, rng)
            else:
                fresh = Node()
                fresh.data = node.survivor(rng)
                fresh.modified_ms = node.modified_ms
                fresh.synced = bytes(fresh.data)
                after._directories[path][name] = fresh
        after._synced[path] = dict(after._directories[path])

    def _split(self, path: str) -> tuple[dict[str, Node | None], str]:
        parent, _, name = path.rpartition("/")
        directory = self._directories.get(parent or "/")
        if directory is None:
            raise FileNotFoundError(path)
        return directory, name

    def _node(self, path: str) -> Node:
        directory, name = self._split(path)
        node = directory.get(name)
        if node is None:
            raise FileNotFoundError(path)
        return node

    def flip(self, path: str, position: int) -> None:
        """One wrong byte."""
        self._node(path).data[position] ^= 0xFF
