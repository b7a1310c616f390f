"""Writes a topic into a file: the batches as the leaders have them, still compressed.

Always: the ends are fixed at the start; control batches and aborted records are in the file too.
"""

import time
from collections.abc import Callable, Mapping
from typing import BinaryIO

from barnabas.client.blocking.admin import Admin
from barnabas.client.blocking.net import run
from barnabas.client.cluster import ClusterClient
from barnabas.client.errors import check_partition
from barnabas.client.recording.recording_file import RecordingHeader, write_batch, write_start
from barnabas.config.resolve import ConfigSource
from barnabas.model.ids import TopicPartition
from barnabas.model.ports import FileSlice
from barnabas.model.version import VERSION
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from barnabas.wire.records import iter_batches

FETCH_BYTES = 4 << 20
BY_NAME_MAX = 12  # the last version of Fetch that names topics
WAIT_MS = 500

Progress = Callable[[int], None]


def record(
    cluster: ClusterClient,
    topic: str,
    ranges: Mapping[TopicPartition, tuple[int, int]],
    out: BinaryIO,
    progress: Progress = lambda count: None,
) -> int:
    """`ranges`: the first offset, and the one to stop before. Returns the number of records."""
    admin = Admin(cluster=cluster)
    configs = {
        option.name: option.value or ""
        for option in admin.topic_options(topic)
        if option.source == ConfigSource.DYNAMIC_TOPIC
    }
    partitions = len(admin.topic(topic).partitions)
    now_ms = int(time.time() * 1000)
    write_start(out, RecordingHeader(topic, partitions, now_ms, VERSION, configs))
    count = 0
    for at, (start, stop) in ranges.items():
        position = start
        while position < stop:
            after = position
            for header, batch in iter_batches(run(_fetched(cluster, at, position))):
                if header.base_offset >= stop:
                    break
                if header.last_offset >= position:
                    write_batch(out, at.partition, batch)
                    count += header.record_count
                after = max(after, header.last_offset + 1)
            if after == position:  # a gap at the end: the rest was compacted away
                break
            position = after
            progress(count)
    return count


async def _fetched(cluster: ClusterClient, at: TopicPartition, position: int) -> bytes | memoryview:
    async def attempt() -> bytes | memoryview:
        leader = await cluster.leader(at)
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            topics=[
                FetchTopic(
                    topic=at.topic,
                    partitions=[
                        FetchPartition(
                            partition=at.partition,
                            fetch_offset=position,
                            partition_max_bytes=FETCH_BYTES,
                        )
                    ],
                )
            ],
        )
        response = await leader.call(
            request,
            FetchResponse,
            timeout_ms=cluster.timeout_ms,
            version_max=BY_NAME_MAX,
        )
        (found,) = response.responses[0].partitions
        check_partition(found.error_code, about=f"{at}, offset {position}")
        records = found.records or b""
        assert not isinstance(records, FileSlice)
        return bytes(records)

    await cluster.view([at.topic])
    return await cluster.retrying(attempt)
