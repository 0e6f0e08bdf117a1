"""Whether every executor can read what the driver plans from: asked of them before a plan is carried out.

Planning happens in the driver alone, with the driver's rights. Credentials that are given as `storage.*` options go to
the executors; what the driver found for itself (its environment, a profile, the role of its machine) does not. Without
this question the first task would fail, minutes later. The jobs ask by themselves, and so does a query by way of
`driver_probe`, for Spark plans it in a process that knows no executors.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from ...light_dataclass import dataclass
from ...remote import PluginError, RemoteStorageError
from ..access.options import TierOptions, parse
from ..access.stores import StoreRef, find_stores
from ..access.worker import WORKER
from ..planning.driver import planning
from ..planning.table import TablePlanner
from ..planning.tier_splits import TierError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUESTIONS_OF_CORE: Final = 2
"""So that no executor is likely to be left out."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The stores of a table, and in which of them the driver sees something of its topics."""

    options: TierOptions
    stores: tuple[tuple[StoreRef, bool], ...]


def check_executors(session: SparkSession, options: Mapping[str, str]) -> None:
    """Raise TierError, which names the executors that cannot and the error of each; OptionError."""
    ask_executors(session, seen_here(parse(options)))


def ask_remote_executors(session: SparkSession, options: TierOptions) -> None:
    """Check the executors, unless they run in this very process: then they have what the driver has."""
    if are_remote(session):
        ask_executors(session, seen_here(options))


def are_remote(session: SparkSession) -> bool:
    """Whether executors run elsewhere than the driver, as far as this process can see and ask them."""
    context = getattr(session, "sparkContext", None)  # none in a session of Spark Connect
    if context is None:
        return False
    master = context.master or "local"
    return master != "local" and not master.startswith("local[")


def seen_here(options: TierOptions) -> Seen:
    """TierError, PluginError, RemoteStorageError where this process cannot read it either."""

    async def stores(_: TablePlanner) -> list[tuple[StoreRef, bool]]:
        refs = await find_stores(options)
        return [(ref, bool(await WORKER.store(options, ref).partitions(options.wants))) for ref in refs]

    return Seen(options, tuple(planning(options, stores)))


def ask_executors(session: SparkSession, seen: Seen) -> None:
    """As `check_executors`."""
    context = session.sparkContext
    count = QUESTIONS_OF_CORE * max(1, context.defaultParallelism)
    answers = context.parallelize(range(count), count).map(partial(_ask, seen)).collect()
    failed = {host: said for host, said in answers if said}
    if failed:
        each = "; ".join(f"{host}: {said}" for host, said in sorted(failed.items()))
        raise TierError(
            f"{len(failed)} executors cannot read what the driver can. {each}. Give credentials as storage.* options, "
            "which go to the executors, or to every executor's environment; a directory must be the same everywhere"
        )


def _ask(seen: Seen, _: int) -> tuple[str, str]:
    """In an executor: its name, and what went wrong or nothing."""
    options = seen.options
    try:
        for ref, has_some in seen.stores:
            if has_some and not WORKER.run(WORKER.store(options, ref).partitions(options.wants)):
                return socket.gethostname(), "nothing of what the driver sees is there"
    except (RemoteStorageError, PluginError) as error:
        return socket.gethostname(), str(error)
    return socket.gethostname(), ""
