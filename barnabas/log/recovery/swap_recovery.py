"""Finishes swaps of compacted segments that a crash interrupted.

In: a partition's directory with `.swap` files. Out: the same without them.
Always: a `.swap` log file is complete: it had another name until it was synced. The `.bases` file
beside it names the segments that it replaces. Without that file, either all old segments are there
(the first is removed first), and the new one is dropped; or Kafka wrote it, and it replaces the
segments that begin within its offsets. They are removed before the new one gets its own name.
Not here: the steps of a swap (log/compaction/segment_swap.py).
"""

from barnabas.log.compaction.job import (
    CLEANED_SUFFIX,
    SWAP_SUFFIX,
    bases_path,
    cleaned_paths,
    decode_bases,
)
from barnabas.log.producers.snapshots import SUFFIX as SNAPSHOT_SUFFIX
from barnabas.log.recovery.findings import RecoveryFinding
from barnabas.log.segments.scan import checked_batches
from barnabas.log.segments.segment import LOG_SUFFIX
from barnabas.model.ports import Disk

_OFFSET_DIGITS = 20


def finish_swaps(
    disk: Disk, path: str, logs: list[int], others: list[str], findings: list[RecoveryFinding]
) -> None:
    """Two passes, with a sync between: what is replaced goes first."""
    ready = []
    for name in others:
        if not name.endswith(LOG_SUFFIX + SWAP_SUFFIX):
            continue
        number = name[:_OFFSET_DIGITS]
        if len(name) != _OFFSET_DIGITS + len(LOG_SUFFIX + SWAP_SUFFIX) or not number.isdigit():
            continue
        base = int(number)
        end, problem = _end(disk, f"{path}/{name}", base)
        bases = _bases(disk, path, base)
        if base in logs and (problem or not bases):
            problem = problem or "the segments that it replaces are still there"
            findings.append(
                RecoveryFinding(f"{path}/{name}", problem, "removed; the old segments stay")
            )
            for swap in cleaned_paths(path, base, SWAP_SUFFIX):
                disk.remove(swap)
            continue
        replaced = bases or [each for each in logs if base <= each < end]
        what = f"a compacted segment that replaces {len(replaced)}"
        findings.append(RecoveryFinding(f"{path}/{name}", what, "swap finished"))
        for old in logs:
            if old in replaced:
                for replaced_file in cleaned_paths(path, old, ""):
                    disk.remove(replaced_file)
                if old != base:
                    disk.remove(f"{path}/{old:020d}{SNAPSHOT_SUFFIX}")
        ready.append(base)
    disk.sync_directory(path)
    for base in ready:
        for swap in cleaned_paths(path, base, SWAP_SUFFIX):
            if disk.exists(swap):
                disk.rename(swap, swap.removesuffix(SWAP_SUFFIX))
    for name in disk.list(path):
        if name.endswith(SWAP_SUFFIX):  # what came with a log file that has its name already
            disk.remove(f"{path}/{name}")
    disk.sync_directory(path)


def _bases(disk: Disk, path: str, base: int) -> list[int]:
    for suffix in (SWAP_SUFFIX, CLEANED_SUFFIX):
        try:
            return decode_bases(disk.read_file(bases_path(path, base, suffix)))
        except (FileNotFoundError, ValueError):
            continue
    return []


def _end(disk: Disk, path: str, base: int) -> tuple[int, str]:
    """The offset behind the last whole batch, and what is wrong with the one after it."""
    file = disk.open(path)
    end = base
    try:
        for _, header, problem in checked_batches(file, file.size()):
            if header is None:
                return end, problem
            end = header.last_offset + 1
    finally:
        file.close()
    return end, ""
