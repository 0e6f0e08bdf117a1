"""What goes wrong in a run: schedules drawn from a seed, scenes, their injection, their shortening.

actions        What operators do, as data: moments of a seed, and the actions of its run.
applications   It draws the faults of a run of an application, which lose nothing that was acknowledged.
directories    It draws faults of one log directory of several.
hardware       It draws faults of disks and of the store that fail, corrupt or hang.
injector       `FaultInjector` makes the faults of a schedule happen in a world, and undoes them.
log_scenes     It draws scenes about the logs of a cluster.
quorum_scenes  It draws scenes of a quorum.
scenes         It draws scenes of a cluster.
schedule       A schedule is data: generated from a seed, stored, shortened, replayed.
settings       It sets machines and the store as the active faults require, and corrupts bits.
table          It draws faults of connections and of the tier, strangers, and what operators do: a row each.
shrink         It shortens a schedule that makes a run fail, as long as it still does (delta debugging).

What is exported here is imported when it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...doors import lazy_door

if TYPE_CHECKING:
    from .applications import KINDS, kinds_named
    from .schedule import Schedule, UnfitScheduleError
    from .shrink import shrink_schedule

__all__ = [
    "KINDS",
    "Schedule",
    "UnfitScheduleError",
    "kinds_named",
    "shrink_schedule",
]

if not TYPE_CHECKING:
    __getattr__ = lazy_door(
        __name__,
        {
            "KINDS": "applications",
            "Schedule": "schedule",
            "UnfitScheduleError": "schedule",
            "kinds_named": "applications",
            "shrink_schedule": "shrink",
        },
    )
