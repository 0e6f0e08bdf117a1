"""The simulated world: event loop, network, machines, disks, clocks, object store.

chance        One seed gives a random generator to each part, by its name.
clock         `WallClock` is a machine's time of day on virtual time.
costs         It samples where the real time of a run goes.
disk          `SimDisk` is the `Disk` of one simulated process.
filesystem    The files of one machine as values, what is durable of them included.
host          `Host` is a simulated machine with at most one node.
link          `Link` is one direction between two hosts: how long bytes take, and whether they arrive at all.
loop          `SimLoop` is an asyncio event loop on virtual time.
network       `Network` connects the simulated hosts.
objects       `SimObjectStore` is the object store that all simulated brokers share.
outside       `Outside` simulates what an application takes from Python: clocks, chance; and refuses the rest.
pipe          `Pipe` is something that bytes pass one after the other at a rate.
process       `Process` says whose callback it is, by a context variable.
store_events  The events that the object store publishes.
tasks         It waits for several tasks of a scenario, and ticks.
transport     `SimTransport` is one end of a simulated TCP connection.
world         `World` holds all of them, and writes the trace and its digest.

What is exported here is imported when it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...doors import lazy_door

if TYPE_CHECKING:
    from .process import current_process
    from .world import World

__all__ = [
    "World",
    "current_process",
]

if not TYPE_CHECKING:
    __getattr__ = lazy_door(__name__, {"World": "world", "current_process": "process"})
