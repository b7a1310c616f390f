"""Logs the transactions that the coordinator has aborted, with the cause.

Always: a bounded number of lines, however many transactions time out at once.
Not here: aborts that producers asked for, which are counted only (metrics.py).
"""

from barnabas.coordinators.transactions.causes import AbortedBy, cause_text
from barnabas.coordinators.transactions.statistics import TransactionStatistics
from barnabas.system.logs import Logger

LINES_MAX = 20


def log_aborts(log: Logger, statistics: TransactionStatistics) -> None:
    aborts, left_out = statistics.take_unlogged()
    for abort in aborts[:LINES_MAX]:
        say = log.warning if abort.cause.kind is AbortedBy.TIMEOUT else log.info
        say(
            "transaction aborted",
            transactional_id=abort.transactional_id,
            producer_id=abort.producer_id,
            why=cause_text(abort.cause),
            open_ms=abort.open_ms,
            timeout_ms=abort.timeout_ms,
            partitions=abort.partitions,
        )
    left_out += len(aborts[LINES_MAX:])
    if left_out:
        log.warning("more transactions aborted", count=left_out)
