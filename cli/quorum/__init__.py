"""`tierfetch quorum`: describe a metadata quorum, and change its voters.

command  is the command.
admin    finds the leader of the quorum and follows it when it moves.
report   prints DescribeQuorum in the words of `kafka-metadata-quorum`.
"""

from .command import quorum

__all__ = ["quorum"]
