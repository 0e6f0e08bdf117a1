"""Whether every executor can read what the driver plans from: asked of them before a long job is begun.

Planning happens in the driver alone, with the driver's rights. Credentials that are given as `storage.*` options go to
the executors; what the driver found for itself (its environment, a profile, the role of its machine) does not. Without
this question the first task would tell, minutes later. The jobs ask by themselves; a query cannot, for Spark plans it
in a process that knows no executors.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from ..remote.registry import PluginError
from ..remote.storage import RemoteStorageError
from .options import TierOptions, parse
from .planning import planning
from .stores import StoreRef, find_stores
from .table_plan import TablePlanner
from .tier_plan import TierError
from .worker import WORKER

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUESTIONS_OF_CORE: Final = 2
"""So that no executor is likely to be left out."""


def check_executors(session: SparkSession, options: Mapping[str, str]) -> None:
    """TierError names the executors that cannot, and what each was told; OptionError."""
    ask_executors(session, parse(options))


def ask_remote_executors(session: SparkSession, options: TierOptions) -> None:
    """The same, unless they are this very process's: then they have what the driver has."""
    master = session.sparkContext.master or "local"
    if master != "local" and not master.startswith("local["):
        ask_executors(session, options)


def ask_executors(session: SparkSession, parsed: TierOptions) -> None:
    """As `check_executors`."""

    async def stores(_: TablePlanner) -> list[tuple[StoreRef, bool]]:
        refs = await find_stores(parsed)
        return [(ref, bool(await WORKER.store(parsed, ref).partitions(parsed.wants))) for ref in refs]

    seen = planning(parsed, stores)
    context = session.sparkContext
    count = QUESTIONS_OF_CORE * max(1, context.defaultParallelism)
    answers = context.parallelize(range(count), count).map(partial(_ask, parsed, seen)).collect()
    failed = {host: said for host, said in answers if said}
    if failed:
        each = "; ".join(f"{host}: {said}" for host, said in sorted(failed.items()))
        raise TierError(
            f"{len(failed)} executors cannot read what the driver can. {each}. Give credentials as storage.* options, "
            "which go to the executors, or to every executor's environment; a directory must be the same everywhere"
        )


def _ask(options: TierOptions, seen: Sequence[tuple[StoreRef, bool]], _: int) -> tuple[str, str]:
    """In an executor: its name, and what went wrong or nothing. `seen`: where the driver saw something."""
    try:
        for ref, has_some in seen:
            if has_some and not WORKER.run(WORKER.store(options, ref).partitions(options.wants)):
                return socket.gethostname(), "nothing of what the driver sees is there"
    except (RemoteStorageError, PluginError) as error:
        return socket.gethostname(), str(error)
    return socket.gethostname(), ""
