"""Progress adds up, and Prometheus gets it."""

import urllib.request

from barnabas.pipeline.run.metrics import MeasuredRun, served
from barnabas.pipeline.run.progress import BatchProgress, Progress
from tests.waiting import WAIT_S


def test_batches_add_up_by_query() -> None:
    seen: list[BatchProgress] = []
    progress = Progress()
    progress.watch(seen.append)
    for number in range(3):
        progress.batch(BatchProgress("lake", number, 100, 50, 10 - number))
    progress.batch(BatchProgress("errors", 0, 300, 0, None))
    assert [batch.number for batch in seen] == [0, 1, 2, 0]
    assert (progress.queries["lake"].rows, progress.queries["lake"].batches) == (300, 3)
    assert progress.batches == 4
    assert progress.lag == 8
    assert str(seen[0]) == "lake: batch 0, 100 rows, 2000 rows/s, 50 ms, 10 behind"
    assert seen[3].rows_per_s == 300_000


def test_prometheus_reads_the_same_figures() -> None:
    progress = Progress()
    progress.batch(BatchProgress("orders.lake", 7, 100, 50, 3))
    progress.retrying = "no answer from 127.0.0.1:9092"
    run = MeasuredRun("orders", progress, 1000)
    with served(lambda: [run], "127.0.0.1", 0) as address:
        page = urllib.request.urlopen(address, timeout=WAIT_S).read().decode()
    labels = '{pipeline="orders",query="orders.lake"}'
    for line in (
        f"barnabas_pipeline_batches_total{labels} 1.0",
        f"barnabas_pipeline_rows_total{labels} 100.0",
        f"barnabas_pipeline_rows_per_second{labels} 2000.0",
        f"barnabas_pipeline_batch_seconds{labels} 0.05",
        f"barnabas_pipeline_lag{labels} 3.0",
        'barnabas_pipeline_alert{alert="retrying",pipeline="orders"} 1.0',
        'barnabas_pipeline_alert{alert="behind",pipeline="orders"} 0.0',
    ):
        assert line in page.splitlines()
