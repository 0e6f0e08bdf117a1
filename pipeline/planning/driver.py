"""Planning in the driver: the stores and the brokers opened, a query asked, the brokers closed again."""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from ...remote import (
    RemoteResourceNotFoundError,
    RemoteStorageCorruptError,
    RemoteStorageError,
    RemoteStorageTimeoutError,
)
from ..access.options import TierOptions
from ..access.stores import find_stores
from ..access.worker import WORKER
from ..core.pruning import EVERYTHING, Pruning
from .catalog import TierCatalog
from .table import TablePlanner
from .tier_splits import TierError

if TYPE_CHECKING:
    from ..access.brokers import Brokers

T = TypeVar("T")

Query = Callable[[TablePlanner], Awaitable[T]]


def catalog_of(options: TierOptions) -> TierCatalog:
    """Return an empty catalog; a caller that plans repeatedly keeps it."""
    return TierCatalog(partial(find_stores, options), partial(WORKER.store, options))


def planning(
    options: TierOptions,
    query: Query[T],
    catalog: TierCatalog | None = None,
    pruning: Pruning = EVERYTHING,
) -> T:
    """Its answer. TierError, PluginError, BrokersUnavailableError; RemoteStorageError and CorruptFileError name an
    object.
    """
    with _without_collections():
        return WORKER.run(_planning(options, query, catalog or catalog_of(options), pruning))


@contextmanager
def _without_collections() -> Iterator[None]:
    """A large plan is hundreds of thousands of values that stay, and are in no cycle: looking for cycles among them, as
    they are made, takes a fifth of the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


async def _planning(options: TierOptions, query: Query[T], catalog: TierCatalog, pruning: Pruning) -> T:
    brokers = None if options.brokers is None else _open_brokers(options.brokers, options)
    try:
        return await query(TablePlanner(options, catalog, brokers, pruning))
    except (RemoteResourceNotFoundError, RemoteStorageCorruptError, RemoteStorageTimeoutError):
        raise
    except OSError as error:
        raise TierError(f"{options.location}: {error}") from error
    except RemoteStorageError as error:
        raise TierError(
            f"{options.location}: {error}. Credentials are given as storage.* options, which go to the executors too, "
            "or are found by the driver and by every executor for itself"
        ) from None
    finally:
        if brokers is not None:
            await brokers.close()


def _open_brokers(named: str, options: TierOptions) -> Brokers:
    from ..access.brokers import Brokers  # takes longer to import than a plan to make, and most queries name none

    return Brokers(named, committed_only=options.isolation == "read_committed", command_config=options.command_config)
