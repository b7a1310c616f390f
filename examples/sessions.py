"""Sessions of customers: orders with less than half an hour between one and the next.

A transform of a pipeline, as in late_counts.py, with state of its own: what is known of an open
session, and a timer that ends it. Such state is kept in RocksDB, which comes with Spark; the spec
says so:

    run:
      options:
        spark.sql.streaming.stateStore.providerClass:
          org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

GAP_MS = 30 * 60 * 1000
_STATE = "begun_ms long, last_ms long, orders long, amount long"
_SESSION = "customer long, begun timestamp, minutes long, orders long, amount long"


def sessions(orders: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions as f

    found = (
        orders.withWatermark("_ts", "10 minutes")
        .groupBy("customer")
        .transformWithState(
            statefulProcessor=_processor(),
            outputStructType=_SESSION,
            outputMode="Append",
            timeMode="EventTime",
        )
    )
    return found.select(
        f.col("customer").cast("string").alias("key"),
        f.to_json(f.struct("customer", "begun", "minutes", "orders", "amount")).alias("value"),
    )


def _processor() -> Any:
    from datetime import UTC, datetime

    from pyspark.sql import Row
    from pyspark.sql.streaming import StatefulProcessor

    class Sessions(StatefulProcessor):  # type: ignore[misc]
        """Spark calls it for each customer with new orders, and when a timer is due."""

        def init(self, handle: Any) -> None:
            self._handle = handle
            self._state = handle.getValueState("session", _STATE)

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
            kept = self._state.get() if self._state.exists() else None
            if kept is not None:
                self._handle.deleteTimer(kept[1] + GAP_MS)
            for row in sorted(rows, key=lambda each: each["_ts"]):
                at_ms = int(row["_ts"].timestamp() * 1000)
                if kept is not None and at_ms > kept[1] + GAP_MS:
                    yield self._session(key, kept)
                    kept = None
                begun_ms, last_ms, orders, amount = kept or (at_ms, at_ms, 0, 0)
                kept = (
                    min(begun_ms, at_ms),
                    max(last_ms, at_ms),
                    orders + 1,
                    amount + row["amount"],
                )
            if kept is not None:
                self._state.update(kept)
                self._handle.registerTimer(kept[1] + GAP_MS)

        def handleExpiredTimer(
            self, key: Any, timerValues: Any, expiredTimerInfo: Any
        ) -> Iterator[Any]:
            yield self._session(key, self._state.get())
            self._state.clear()

        def _session(self, key: Any, kept: Any) -> Any:
            begun_ms, last_ms, orders, amount = kept
            return Row(
                customer=key[0],
                begun=datetime.fromtimestamp(begun_ms / 1000, UTC),
                minutes=(last_ms - begun_ms) // 60_000,
                orders=orders,
                amount=amount,
            )

        def close(self) -> None:
            """Nothing is open."""

    return Sessions()
