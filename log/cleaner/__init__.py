"""Log compaction: which log is cleaned, how, and what a cleaning leaves.

cleaner         cleans the logs of a node one after another, the dirtiest first.
cleaning        performs one cleaning: it builds the map, rewrites the segments, and swaps them in.
batch_cleaning  cleans one batch: it reads the records in slices and writes those that remain.
core/           decides what may be cleaned and which records remain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...doors import lazy_door

if TYPE_CHECKING:
    from .cleaner import CleanerSettings

__all__ = ["CleanerSettings"]

if not TYPE_CHECKING:
    __getattr__ = lazy_door(__name__, dict.fromkeys(__all__, "cleaner"))
