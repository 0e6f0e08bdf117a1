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
process       `Process` says whose callback it is, by a context variable.
store_events  The events that the object store publishes.
tasks         It waits for several tasks of a scenario, and ticks.
transport     `SimTransport` is one end of a simulated TCP connection.
world         `World` holds all of them, and writes the trace and its digest.
"""
