"""Which batches of a log are aborted, and which markers are still needed.

In: the indexes of aborted transactions; transactional batches and markers, in the order of offsets.
Out: whether a batch is aborted; whether a marker's transaction still has a batch in the log, and
its entry in the index.
Always: one scan goes over all groups of segments of a pass, as transactions do. A batch without
records counts too: recovery would take its transaction for open if its marker were gone.
Always: Corrupt if the index and the markers disagree. Compaction would delete records for good that
are committed, or keep aborted ones as committed.
Not here: the delete horizon of markers, and who needs them otherwise (compaction.py).
"""

from collections import deque
from collections.abc import Iterable

from barnabas.log.compaction.job import CompactionJob, SealedSegment, aborted_path
from barnabas.log.config import INT64_MAX
from barnabas.log.transactions.aborted_index import AbortedIndex, AbortedTransaction
from barnabas.model.errors import Code, Corrupt
from barnabas.model.ports import Disk
from barnabas.wire.batch import BatchHeader
from barnabas.wire.control_records import EndMarker


class TransactionScan:
    """Begins at the first of `sources`."""

    def __init__(self, disk: Disk, job: CompactionJob, sources: Iterable[SealedSegment]) -> None:
        self._disk = disk
        self._path = job.path
        self._sources = deque(each for each in sources if each.has_aborted)  # not read yet
        self._behind = [AbortedTransaction._make(each) for each in job.aborted_behind]
        self._known_to = 0  # aborted transactions that begin below are known
        self._aborted: dict[int, deque[AbortedTransaction]] = {}  # by producer, the next one first
        self._with_data: set[int] = set()  # producers with a batch since their last marker

    def add_batch(self, header: BatchHeader) -> bool:
        """True if this transactional batch is aborted."""
        self._with_data.add(header.producer_id)
        aborted = self._next_aborted(header)
        return aborted is not None and aborted.first_offset <= header.base_offset

    def add_marker(
        self, header: BatchHeader, marker: EndMarker
    ) -> tuple[bool, AbortedTransaction | None]:
        """Whether a batch of the transaction that it ends is left; its entry if it is aborted."""
        producer_id, offset = header.producer_id, header.base_offset
        has_data = producer_id in self._with_data
        self._with_data.discard(producer_id)
        aborted = self._next_aborted(header)
        if aborted is not None and aborted.first_offset > offset:
            aborted = None  # a later one
        if aborted is not None and (marker.commit or aborted.last_offset != offset):
            raise self._disagree(
                f"producer {producer_id} aborted offsets {aborted.first_offset} to"
                f" {aborted.last_offset}, but its transaction ends at {offset}"
                + (" and is committed" if marker.commit else "")
            )
        if aborted is None and has_data and not marker.commit:
            raise self._disagree(
                f"the transaction of producer {producer_id} that is aborted at {offset} is missing"
            )
        if aborted is not None:
            self._aborted[producer_id].popleft()
        return has_data, aborted

    def _next_aborted(self, header: BatchHeader) -> AbortedTransaction | None:
        """The first aborted transaction of the batch's producer that does not end before it."""
        if header.base_offset >= self._known_to:
            self._look_ahead(header.base_offset)
        coming = self._aborted.get(header.producer_id)
        while coming and coming[0].last_offset < header.base_offset:
            coming.popleft()  # its marker is gone, or before the scan
        if coming:
            return coming[0]
        if coming is not None:
            del self._aborted[header.producer_id]
        return None

    def _look_ahead(self, offset: int) -> None:
        """Read indexes until one says that all that begins at or below `offset` is decided."""
        while self._sources:
            source = self._sources.popleft()
            if source.next_offset <= offset:
                continue  # perhaps replaced already, by a segment of this pass
            self._add(self._read_index(source))
            if offset < self._known_to:
                return
        self._add(self._behind)
        self._known_to = INT64_MAX

    def _read_index(self, source: SealedSegment) -> AbortedIndex:
        path = aborted_path(self._path, source.base_offset, "")
        self._disk.size(path)  # FileNotFoundError if the segment was deleted meanwhile
        index = AbortedIndex(self._disk, path)
        # A swap that did not come to its end may have left the entries of later segments too.
        index.check(source.base_offset, INT64_MAX)
        return index

    def _add(self, entries: Iterable[AbortedTransaction]) -> None:
        for aborted in entries:
            self._aborted.setdefault(aborted.producer_id, deque()).append(aborted)
            self._known_to = max(self._known_to, aborted.stable_offset)

    def _disagree(self, what: str) -> Corrupt:
        return Corrupt(
            f"the index of aborted transactions does not fit the log: {what}",
            Code.KAFKA_STORAGE_ERROR,
        )
