"""The simulated world: event loop, network, machines, disks, clocks, object store.

chance      One seed for everything
clock       A machine's time of day on virtual time
costs       Where the real time of a run goes
disk        The `Disk` of one simulated process
filesystem  The files of one machine as values
host        A simulated machine
link        One direction between two hosts: how long bytes take, and whether they arrive at all
loop        An asyncio event loop on virtual time
network     The network between simulated hosts
objects     The object store that all simulated brokers share
process     Whose callback it is
tasks       Waiting for several tasks of a scenario
transport   One end of a simulated TCP connection
world       A simulated world
"""
