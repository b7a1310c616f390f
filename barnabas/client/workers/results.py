"""The results of a handler: records that it returns, checked and serialized.

In: what a handler returned. Out: records whose keys and values are bytes.
Always: it runs in the call, so that a record whose result is not valid fails alone.
"""

from barnabas.client.producer.intake import headers_of, moment_of, name_of, number_of, octets_of
from barnabas.client.producer.record import ProducerRecord
from barnabas.client.workers.calls import Serializer

Results = ProducerRecord | list[ProducerRecord] | tuple[ProducerRecord, ...] | None
"""What a handler may return."""


class ResultEncoder:
    """Of one worker."""

    def __init__(self, key: Serializer | None, value: Serializer | None) -> None:
        self._key = key
        self._value = value

    def encode(self, result: object) -> tuple[ProducerRecord, ...]:
        if isinstance(result, ProducerRecord):
            return (self._encoded(result),)
        if isinstance(result, list | tuple):
            return tuple([self._encoded(one) for one in result])
        raise _not_records(result)

    def _encoded(self, record: object) -> ProducerRecord:
        if not isinstance(record, ProducerRecord):
            raise _not_records(record)
        topic, value, key, headers, partition, timestamp = record
        if self._key is not None and key is not None:
            key = self._key(key)
        if self._value is not None and value is not None:
            value = self._value(value)
        return ProducerRecord(
            name_of(topic),
            None if value is None else octets_of(value, "value"),
            None if key is None else octets_of(key, "key"),
            headers_of(headers),
            None if partition is None else number_of(partition, "partition"),
            None if timestamp is None else moment_of(timestamp),
        )


def _not_records(given: object) -> TypeError:
    return TypeError(
        f"a handler returns a ProducerRecord, a list of them, or None, not {given!r:.100}"
    )
