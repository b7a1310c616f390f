"""A client object belongs to the process that created it.

Always: a forked child cannot use it, because parent and child share its sockets: their requests
would mix, and a response would reach either of them. A close in the child closes the child's
descriptors, and sends nothing to a broker.
Not here: to which event loop it belongs (aio/net.py).
"""

import os

from barnabas.model.errors import Code, InvalidRequest


class OwnerProcess:
    """The process in which this was made. Asking costs no system call."""

    __slots__ = ("_forks_before",)

    forks = 0  # between the process that loaded this module and this one

    def __init__(self) -> None:
        self._forks_before = OwnerProcess.forks

    def is_here(self) -> bool:
        return self._forks_before == OwnerProcess.forks

    def check(self) -> None:
        if not self.is_here():
            raise InvalidRequest(
                Code.INVALID_REQUEST,
                "this client was made before this process was forked, and its connections belong"
                " to the parent process: make another one here",
            )


def _forked() -> None:
    OwnerProcess.forks += 1


os.register_at_fork(after_in_child=_forked)
