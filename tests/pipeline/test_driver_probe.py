"""A planning process asks the driver, who asks the executors"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from tierfetch.pipeline.access.options import parse
from tierfetch.pipeline.access.stores import StoreRef
from tierfetch.pipeline.planning.tier_splits import TierError
from tierfetch.pipeline.spark import driver_probe, executors
from tierfetch.pipeline.spark.driver_probe import ask_driver, open_probe
from tierfetch.pipeline.spark.executors import Seen, are_remote

pytest.importorskip("pyspark")
pytestmark = pytest.mark.spark
SEEN = (StoreRef("/tier", "kafka"), True)


class Cluster:
    """A session with one executor, which answers what the test wants."""

    def __init__(self, master: str = "yarn") -> None:
        self.master = master
        self.sparkContext = self
        self.defaultParallelism = 1
        self.jobs = 0
        self.says: Callable[[], str] = str

    def parallelize(self, items: Iterable[Any], _: int) -> Cluster:
        self.jobs += 1
        return self

    def map(self, _: object) -> Cluster:
        return self

    def collect(self) -> list[tuple[str, str]]:
        return [("worker-1", self.says())]


@pytest.fixture(autouse=True)
def what_the_driver_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_probe, "seen_here", lambda options: Seen(options, (SEEN,)))


def raising(error: Exception) -> Callable[[], str]:
    def fail() -> str:
        raise error

    return fail


def options(**more: str) -> Any:
    return parse({"location": "/tier", "topics": "t", **more})


def test_what_the_executors_say_is_an_error_of_the_plan() -> None:
    cluster = Cluster()
    probe = open_probe(cluster)
    cluster.says = lambda: "NoCredentialsError: Unable to locate credentials"
    with pytest.raises(TierError, match=r"1 executors cannot read what the driver can. worker-1: NoCredentialsError"):
        ask_driver(probe, options())
    cluster.says = str
    ask_driver(probe, options())


def test_what_was_answered_well_is_not_asked_again() -> None:
    cluster = Cluster()
    probe = open_probe(cluster)
    for _ in range(3):
        ask_driver(probe, options())
    assert cluster.jobs == 1
    ask_driver(probe, options(**{"storage.access.key.id": "another"}))
    assert cluster.jobs == 2
    assert open_probe(cluster) == probe


def test_a_fault_of_its_own_refuses_nothing_and_the_next_is_answered() -> None:
    cluster = Cluster()
    probe = open_probe(cluster)

    cluster.says = raising(RuntimeError("a bug"))
    ask_driver(probe, options())
    cluster.says = lambda: "NoCredentialsError: Unable to locate credentials"
    with pytest.raises(TierError, match="NoCredentialsError"):
        ask_driver(probe, options())


def test_a_job_that_fails_is_told_in_a_line() -> None:
    from pyspark.errors import PySparkException

    cluster = Cluster()
    probe = open_probe(cluster)

    why = "Job aborted\nModuleNotFoundError: No module named 'tierfetch'\n\tat org.apache.spark"
    cluster.says = raising(PySparkException(why))
    said = (
        r"^the executors cannot be asked whether they can read /tier: ModuleNotFoundError: No module named 'tierfetch'$"
    )
    with pytest.raises(TierError, match=said):
        ask_driver(probe, options())


def test_a_driver_that_is_gone_refuses_nothing() -> None:
    """And a planning process that ends before it is answered harms nobody."""
    ask_driver("/nowhere/probe", options())
    cluster = Cluster()
    probe = open_probe(cluster)
    subprocess.run([sys.executable, "-c", _HANG_UP, probe], check=True, timeout=60)
    ask_driver(probe, options())


_HANG_UP = "import sys, multiprocessing.connection as c; c.Client(sys.argv[1], family='AF_UNIX').close()"


@pytest.mark.parametrize(
    ("master", "found"), [("local", False), ("local[2]", False), ("local-cluster[1,1,1024]", True), ("yarn", True)]
)
def test_which_executors_are_asked(master: str, found: bool) -> None:
    assert are_remote(Cluster(master)) is found
    assert are_remote(object()) is False, "a session of Spark Connect"
    assert executors.QUESTIONS_OF_CORE > 1
