"""Mirrors topics, and the offsets of groups, to another cluster: `mirror(source, target)`.

mirroring: rounds, each of which copies what was there when it began
round_commits: commits the records and the progress of a round together
target_topics: topics as a mirror finds and creates them
copying: copies a range of one partition, batch by batch
identical: mirrors with identical offsets
translation: offsets of the source to offsets of the target
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.pipeline.mirror.mirroring import mirror

__all__ = ["mirror"]


def __getattr__(name: str) -> object:
    # A task that copies needs only copying.py.
    if name != "mirror":
        raise AttributeError(f"module 'barnabas.pipeline.mirror' has no attribute {name!r}")
    from barnabas.pipeline.mirror.mirroring import mirror

    return mirror
