"""What one replica's local log is: segments, indexes, epochs, producer state, checkpoints, recovery.

Knows no other node and no remote store. Pure parts (`epochs`, `producers`, `index`) under `partition_log`, which works
over the `Disk` port.
"""
