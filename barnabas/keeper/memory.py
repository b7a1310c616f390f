"""A keeper in memory: for tests, the simulator and brokers that leave nothing behind."""

from collections.abc import Sequence

from barnabas.keeper.keeper import (
    ANY_VERSION,
    Check,
    Create,
    Delete,
    Node,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    Set,
    check_operations,
    of_version,
    parent,
)


class MemoryKeeper:
    """Holds the contract of keeper.py, but for surviving a crash."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}

    def create(self, path: str, data: bytes = b"") -> None:
        self.multi([Create(path, data)])

    def get(self, path: str) -> Node:
        return _found(self._nodes, path)

    def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> int:
        self.multi([Set(path, data, version)])
        return self._nodes[path].version

    def delete(self, path: str, version: int = ANY_VERSION) -> None:
        self.multi([Delete(path, version)])

    def exists(self, path: str) -> bool:
        return path in self._nodes

    def children(self, path: str) -> list[str]:
        if path != "/":
            _found(self._nodes, path)
        return _children(self._nodes, path)

    def multi(self, operations: Sequence[Operation]) -> None:
        nodes = dict(self._nodes)
        for operation in check_operations(operations):
            _apply(nodes, operation)
        self._nodes = nodes

    def close(self) -> None:
        """Nothing to close."""


def _apply(nodes: dict[str, Node], operation: Operation) -> None:
    path = operation.path
    if isinstance(operation, Create):
        above = parent(path)
        if above and above not in nodes:
            raise NoNode(above, f"cannot create {path}")
        if path in nodes:
            raise NodeExists(path)
        nodes[path] = Node(bytes(operation.data), 0)
        return
    node = _found(nodes, path)
    of_version(path, node.version, operation.version)
    if isinstance(operation, Set):
        nodes[path] = Node(bytes(operation.data), node.version + 1)
    elif isinstance(operation, Delete):
        if _children(nodes, path):
            raise NotEmpty(path)
        del nodes[path]
    else:
        assert isinstance(operation, Check)


def _found(nodes: dict[str, Node], path: str) -> Node:
    node = nodes.get(path)
    if node is None:
        raise NoNode(path)
    return node


def _children(nodes: dict[str, Node], path: str) -> list[str]:
    above = "" if path == "/" else path
    return sorted(name.rpartition("/")[2] for name in nodes if parent(name) == above)
