"""Copies in a process of their own, of the lowest priority: the broker's event loop does not wait for them.

core/     holds the messages between a broker and its worker, as values and as bytes. Pure.
storage   is a storage whose copies run in the worker. Begin here.
process   is the broker's end of a worker: starts it, gives it calls, notices its death.
failures  carries the errors of a call from the worker to the broker.
__main__  is the worker.

Other folders import what is exported here.
"""

from __future__ import annotations

from .process import StorageRecipe
from .storage import WorkerStorage, may_copy_in_worker

__all__ = ["StorageRecipe", "WorkerStorage", "may_copy_in_worker"]
