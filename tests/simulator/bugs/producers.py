"""Bugs with producers that send again."""

from typing import Any

from barnabas.client.producer import sequences
from barnabas.log import replica_append
from barnabas.log.producers.state import ProducerStates
from tests.simulator.bugs.planting import Change, bug


@bug(brokers=None)
def takes_repeats_for_new() -> list[Change]:
    """Hazard 17: a batch that was written but not acknowledged is written once more."""
    return [(ProducerStates, "check", lambda self, *_: None)]


@bug()
def followers_remember_no_producers() -> list[Change]:
    """Hazard 18: what producers wrote is not known to the next leader."""
    real = replica_append.append_one

    def append(log: Any, header: Any, batch: Any, wall_ms: int) -> None:
        real(log, header, batch, wall_ms)
        log.producers.entries.clear()

    return [(replica_append, "append_one", append)]


@bug()
def forgets_producers_when_it_cuts() -> list[Change]:
    """Hazard 18: after a truncation producers are known as before it, not as the log has them."""
    from barnabas.log.log import Log

    real = Log.truncate_to

    def truncate_to(self: Log, offset: int, **options: Any) -> Any:
        kept = dict(self.producers.entries)
        result = real(self, offset, **options)
        self.producers.entries.clear()
        self.producers.entries.update(kept)
        return result

    return [(Log, "truncate_to", truncate_to)]


@bug(brokers=None)
def sends_again_under_new_numbers() -> list[Change]:
    """Hazards 17 and 19: a producer gives new numbers to a batch that may have been written."""
    real = sequences.requeue

    def requeue(queue: Any, batch: Any) -> None:
        real(queue, batch)
        batch.unsure = False
        queue.lost = True

    return [(sequences, "requeue", requeue)]
