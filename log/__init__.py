"""What one replica's local log is: segments, indexes, epochs, producer state, checkpoints, recovery.

It knows no other node and no remote store.

partition_log  is one replica's log behind one class. Begin here.
replica/       holds the parts of that class: append, read, trim, truncate, recover.
core/          holds the formats and rules that need no disk.
segment/       is one segment's files, and the list of a log's segments.
disk/          declares the `Disk` port and implements it on the operating system.
keeper/        keeps all logs of one node in their directories.
cleaner/       compacts logs.

Other folders import what `log.keeper` exports from there, and the rest from its module: exported here, the whole log
would be loaded for one checkpoint's format.
"""
