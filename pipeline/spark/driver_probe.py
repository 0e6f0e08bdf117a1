"""How a query on a cluster is refused when it is planned where executors cannot read: the driver asks them.

    planning process (no session) --what it sees--> driver's process --a Spark job--> executors
                                  <--what is wrong, or nothing--

Spark plans in a Python process of its own on the driver's machine. `open_probe` gives it an address in the process that
has the session: a socket in a directory that its user alone may enter. What was answered well is not asked again.

A probe that does not answer, because its process has ended or all executors are busy, refuses nothing: the first task
then reports what it cannot read.
"""

from __future__ import annotations

import logging
from functools import cache
from multiprocessing.connection import Client, Listener
from threading import Thread
from typing import TYPE_CHECKING, Final

from ..access.options import TierOptions
from ..planning.tier_splits import TierError
from .executors import Seen, ask_executors, seen_here
from .spark_faults import JobError, spark_faults

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ANSWER_TIMEOUT_S: Final = 120.0
WAITING_MAX: Final = 64
"""Planning processes at once."""

_log = logging.getLogger(__name__)


@cache
def open_probe(session: SparkSession) -> str:
    """Its address, which is good until this process ends."""
    listener = Listener(family="AF_UNIX", backlog=WAITING_MAX)
    Thread(target=_serve, args=(listener, session), name="tierfetch-probe", daemon=True).start()
    return str(listener.address)


def ask_driver(probe: str, options: TierOptions) -> None:
    """In a planning process: TierError for what the executors cannot read. Errors of `seen_here`."""
    seen = seen_here(options)
    try:
        with Client(probe, family="AF_UNIX") as driver:
            driver.send(seen)
            said = driver.recv() if driver.poll(ANSWER_TIMEOUT_S) else ""
    except (OSError, EOFError):
        return
    if said:
        raise TierError(said)


def _serve(listener: Listener, session: SparkSession) -> None:
    well: set[object] = set()
    while True:
        with listener.accept() as planning:
            try:
                seen: Seen = planning.recv()
                planning.send(_answer(session, seen, well))
            except (OSError, EOFError):
                continue  # it has ended meanwhile
            except Exception:  # noqa: BLE001 - the next one must be answered
                _log.exception(
                    "cannot probe whether the executors can read the tier; the first task that reads it will show"
                )


def _answer(session: SparkSession, seen: Seen, well: set[object]) -> str:
    """Nothing, or what is wrong. `well`: what was asked before and is well."""
    question = seen.stores, seen.options.access
    if question in well:
        return ""
    try:
        with spark_faults():
            ask_executors(session, seen)
    except JobError as error:
        return f"the executors cannot be asked whether they can read {seen.options.location}: {error}"
    except TierError as error:
        return str(error)
    well.add(question)
    return ""
