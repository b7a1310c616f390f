"""The one line that matters of what comes through Spark; texts as Spark 4.2 has them."""

from typing import Any

import pytest

from barnabas.model.errors import Code, Retriable
from barnabas.pipeline.errors import PipelineError, from_spark, one_line

errors: Any = pytest.importorskip("pyspark.errors", reason="pyspark is not installed")

FAILED = "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: "
TRACE = "Traceback (most recent call last):\n"
IN_BATCH = (
    f"{FAILED}[FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred in the user provided function"
    " in foreach batch sink. Reason: An exception was raised by the Python Proxy. Return Message:"
    f' {TRACE}  File "/site-packages/barnabas/pipeline/lake/lake.py", line 100, in write_files\n'
    "    writer.parquet(path)\n"
)
STACK = "\tat org.apache.spark.sql.Dataset.apply(Dataset.scala:5)\n"
JAVA = "py4j.protocol.Py4JJavaError: An error occurred while calling o9.parquet.\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            f"{FAILED}Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times, most"
            " recent failure: Lost task 0.0 in stage 1.0 (TID 1) (127.0.0.1 executor driver):"
            f" org.apache.spark.api.python.PythonException: {TRACE}"
            '  File "/spark/python/lib/pyspark.zip/pyspark/worker.py", line 2000, in main\n'
            "    process()\n"
            '  File "/home/me/steps.py", line 5, in boom\n'
            "    raise ValueError(3)\n"
            f"ValueError: 3\n\n{STACK}SQLSTATE: XXKST",
            "ValueError: 3, /home/me/steps.py:5",
        ),
        (
            f"{IN_BATCH}{JAVA}: org.apache.spark.SparkException: [TASK_WRITE_FAILED] Task failed"
            f" while writing rows to file:/lake. SQLSTATE: 58030\n{STACK}"
            f"Caused by: java.io.IOException: No space left on device\n{STACK}",
            "Task failed while writing rows to file:/lake: No space left on device",
        ),
        (
            f"{IN_BATCH}{JAVA}: java.io.IOException: Mkdirs failed to create file:/lake\n{STACK}",
            "Mkdirs failed to create file:/lake",
        ),
        (
            f"{IN_BATCH}pyspark.errors.exceptions.captured.AnalysisException:"
            " [COLUMN_ALREADY_EXISTS] The column `a` already exists. SQLSTATE: 42711\n",
            "The column `a` already exists.",
        ),
        ("[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012", "Division by zero."),
    ],
    ids=["worker", "disk", "directory", "columns", "spark"],
)
def test_one_line_says_what_happened(text: str, said: str) -> None:
    assert str(from_spark(errors.PySparkException(text))) == said


@pytest.mark.parametrize(
    ("detail", "said"),
    [
        ("h:9092: Connection refused", "no answer from h:9092: Connection refused. Run"),
        ("no broker at h:9092: Connection refused. Run one", "no broker at h:9092: Connection"),
    ],
)
def test_an_unreachable_broker_is_an_error_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, detail: str, said: str
) -> None:
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")

    @one_line
    def read() -> None:
        raise Retriable(Code.NETWORK_EXCEPTION, detail)

    with pytest.raises(PipelineError) as caught:
        read()
    through = f"{FAILED}[USER_RAISED] PipelineError: {caught.value}\n{STACK}"
    assert str(from_spark(errors.PySparkException(through))).startswith(said)


def test_the_code_of_an_error_arrives_although_spark_carries_only_its_text() -> None:
    @one_line
    def commit() -> None:
        raise PipelineError("batch 3 is not committed", Code.TRANSACTION_ABORTABLE)

    with pytest.raises(PipelineError) as raised:
        commit()
    text = f"{FAILED}{TRACE}barnabas.pipeline.errors.PipelineError: {raised.value}\n{STACK}"
    found = from_spark(errors.PySparkException(text))
    assert (str(found), found and found.code) == (
        "batch 3 is not committed", Code.TRANSACTION_ABORTABLE,
    )  # fmt: skip


def test_the_reason_of_a_batch_that_could_not_be_aborted_is_in_its_cause() -> None:
    outer = errors.PySparkException(f"{FAILED}Writing job failed. SQLSTATE: XXKST\n{STACK}")
    inner = errors.PySparkException("Writing job failed.")
    text = f"{TRACE}barnabas.pipeline.errors.PipelineError: NETWORK_EXCEPTION: no answer\n"
    outer._cause, inner._cause = inner, errors.PySparkException(text)
    found = from_spark(outer)
    assert (str(found), found and found.code) == ("no answer", Code.NETWORK_EXCEPTION)
