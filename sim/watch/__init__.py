"""A run as a page to look at: `tierfetch simulate --watch SEED`.

run       `watch_seed` runs a seed, and returns its page.
timeline  It reads what happened, to whom and for how long, from the lines of a run and the history of its clients.
drawing   It draws the timeline: nodes as lanes over time, faults, leaders, ISRs, what was acknowledged and read.
page      `watch_page` makes the document.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...doors import lazy_door

if TYPE_CHECKING:
    from .run import watch_seed

__all__ = [
    "watch_seed",
]

if not TYPE_CHECKING:
    __getattr__ = lazy_door(__name__, {"watch_seed": "run"})
