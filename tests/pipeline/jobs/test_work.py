"""What the jobs share: options, names for reports, bins, and one line out of two languages' traces."""

from __future__ import annotations

import pytest

from tierfetch.pipeline.jobs.work import bins, display_name, job_options
from tierfetch.pipeline.spark.spark_faults import JobError, said_by

TRACE = """Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times, most recent failure: Lost task 0.3
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "worker.py", line 1234, in main
    process()
OSError: [Errno 5] Input/output error

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "auditing.py", line 12, in _audit_one
tierfetch.remote.storage.RemoteStorageError: t-0/00.log: the store says 503

	at org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:581)
Caused by: org.apache.spark.SparkException: [INTERNAL] something
"""


def test_what_a_task_said_is_found_in_its_traces() -> None:
    assert said_by(TRACE) == "RemoteStorageError: t-0/00.log: the store says 503"
    assert said_by("Connection to spark://nowhere:7077 refused\n at x") == "Connection to spark://nowhere:7077 refused"


@pytest.mark.parametrize(
    ("location", "name"),
    [
        ("/data/private/tier", "tier"),
        ("tier/", "tier"),
        ("file:///data/private/tier", "tier"),
        ("s3://bucket/prefix/", "s3://bucket/prefix"),
        ("ftp://user:hidden@host/tier?key=hidden", "ftp://host/tier"),
        ("s3://id:hidden@bucket/tier", "s3://bucket/tier"),
    ],
)
def test_a_report_names_its_tier_without_paths_and_secrets(location: str, name: str) -> None:
    assert display_name(location) == name


def test_all_topics_unless_some_are_named() -> None:
    assert job_options({"location": "tier"}).wants("anything")
    assert not job_options({"location": "tier", "topics": "orders"}).wants("clicks")
    assert not job_options({"location": "tier", "topics_pattern": "or.*"}).wants("clicks")
    with pytest.raises(JobError, match="remove the option brokers"):
        job_options({"location": "tier", "brokers": "127.0.0.1:9092"})


def test_bins_keep_the_order_and_are_full_but_for_the_last() -> None:
    assert bins([5, 5, 1, 20, 1], lambda item: item, 10) == [(5, 5), (1, 20), (1,)]
    assert bins([], lambda item: item, 10) == []
