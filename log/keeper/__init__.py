"""All logs of one node in their directories: opened, made, deleted, put aside, checkpointed, looked after.

damage                 Puts a damaged log aside, so that another one can take its place
directory_checkpoints  The offset checkpoints of one log directory
log_directory          One log directory of a node
manager                All logs of one node, in one or several log directories
removals               What was deleted and is still there
replace_replica        Puts a replica that was rebuilt from the tier in the place of the one that is there
side_directories       Directories that are built beside a partition's own, and what the next start makes of them
upkeep                 What the logs of a node need now and then
"""
