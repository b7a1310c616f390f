"""LogStory: how large the logs of a topic are, and how compaction stands, for our own client."""

from typing import TYPE_CHECKING

from barnabas.broker.dispatch import Call
from barnabas.log.cleanable import look
from barnabas.log.log import Log
from barnabas.model.errors import Code, KafkaError
from barnabas.wire.messages.log_story import LogStoryRequest, LogStoryResponse, ToldLog

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker


def handle(broker: "Broker", request: LogStoryRequest, call: Call) -> LogStoryResponse:
    logs = []
    for index in dict.fromkeys(request.partitions):
        try:
            log = broker.topics.existing(request.topic).partition(index).log
            logs.append(_tell(broker, index, log))
        except KafkaError as error:
            logs.append(ToldLog(partition=index, error_code=error.code))
        except OSError:
            logs.append(ToldLog(partition=index, error_code=Code.KAFKA_STORAGE_ERROR))
    return LogStoryResponse(logs=logs)


def _tell(broker: "Broker", index: int, log: Log) -> ToldLog:
    if not log.config.compacted:
        return ToldLog(partition=index, bytes=log.size, segments=len(log.segments))
    found = look(log, broker.clock.wall_ms())
    current = broker.cleaner.current
    if log in broker.cleaner.unfit:
        words = f"left alone until a restart: {broker.cleaner.unfit[log]}"
    elif current is not None and current.log is log:
        words = f"under way: {current.due}"
    elif not broker.config.log_cleaner_enable:
        words = "switched off: log.cleaner.enable = false"
    elif found.due:
        words = f"due: {found.due}"
    elif found.dirty_bytes:
        least = log.config.min_cleanable_dirty_ratio
        words = f"not yet: {found.dirty_ratio:.0%} is dirty, min.cleanable.dirty.ratio = {least}"
    else:
        words = "clean"
    return ToldLog(
        partition=index,
        bytes=log.size,
        segments=len(log.segments),
        clean_bytes=found.clean_bytes,
        dirty_bytes=found.dirty_bytes,
        cleaned_to=log.cleaned_to,
        cleaning=words,
    )
