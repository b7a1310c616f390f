"""The settings of a producer, from its options: how it sends, how long it waits, how it retries.

Always: options that contradict each other are refused, with an error that names them.
"""

from typing import NamedTuple

from barnabas.config.client import ClientConfig
from barnabas.config.option import invalid
from barnabas.wire.compression import Codec

ACKS_ALL = -1
IDEMPOTENT_IN_FLIGHT_MAX = 5


class ProducerSettings(NamedTuple):
    """What the options say."""

    acks: int = -1
    idempotent: bool = True
    codec: Codec = Codec.NONE
    linger_ms: int = 0
    request_size_max: int = 1_048_576
    in_flight_max: int = 5
    retries_max: int = 2**31 - 1
    delivery_timeout_ms: int = 120_000
    block_ms_max: int = 60_000
    backoff_ms: int = 100
    backoff_ms_max: int = 1_000
    metadata_age_ms_max: int = 300_000
    transactional_id: str | None = None


def settings_of(config: ClientConfig) -> ProducerSettings:
    acks = ACKS_ALL if config.acks == "all" else int(config.acks)
    idempotent = config.enable_idempotence and acks == ACKS_ALL
    if config.enable_idempotence and not idempotent and "enable.idempotence" in config.given:
        raise invalid(f"enable.idempotence=true needs acks=all, but acks={config.acks}")
    transactional_id = config.transactional_id or None
    if transactional_id is not None and not idempotent:
        wrong = f"acks={config.acks}" if acks != ACKS_ALL else "enable.idempotence=false"
        raise invalid(f"transactional.id needs acks=all and enable.idempotence=true, not {wrong}")
    in_flight_max = config.max_in_flight_requests_per_connection
    if idempotent and in_flight_max > IDEMPOTENT_IN_FLIGHT_MAX:
        raise invalid(
            f"max.in.flight.requests.per.connection={in_flight_max}: with "
            f"enable.idempotence at most {IDEMPOTENT_IN_FLIGHT_MAX}, as brokers remember no more"
        )
    return ProducerSettings(
        acks=acks,
        idempotent=idempotent,
        codec=Codec[config.compression_type.upper()],
        linger_ms=config.linger_ms,
        request_size_max=config.max_request_size,
        in_flight_max=in_flight_max,
        retries_max=config.retries,
        delivery_timeout_ms=config.delivery_timeout_ms,
        block_ms_max=config.max_block_ms,
        backoff_ms=config.retry_backoff_ms,
        backoff_ms_max=config.retry_backoff_max_ms,
        metadata_age_ms_max=config.metadata_max_age_ms,
        transactional_id=transactional_id,
    )
