"""`tierfetch tier`: what is in a remote tier, and whether it is what the remote log metadata says.

command  is the command: options, exit codes, progress.
ledgers  reads the ledgers of all partitions from `__remote_log_metadata`.
verify   orders the reads of a tier in use, so that concurrent changes are not reported as damage.
report   prints the tables and writes the JSON documents.
"""

from .command import tier

__all__ = ["tier"]
