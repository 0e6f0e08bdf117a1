"""What the controller is to know of where this broker's replicas lie (AssignReplicasToDirs, KIP-858).

| the replica                                             | reported                                                   |
|---------------------------------------------------------|------------------------------------------------------------|
| serves, and the image says something else               | its directory                                              |
| its log has failed, or cannot be opened                 | LOST: the controller takes it out of the ISR, or leaves    |
|                                                         | the partition without a leader if it is the last member,   |
|                                                         | and raises the leader epoch if it led; nothing else moves  |
| the same, in a directory that is offline                | nothing: the heartbeat says so                             |
| moves to another directory, and has caught up there    | that directory, from now on (`promised`): the switch waits |
|                                                         | for the controller to know it, see `directory_moves`       |
| serves again, and may lead a partition that nobody leads| its directory once more: Apache Kafka's controllers elect  |
|                                                         | by where the replica lay before the request                |

A request may be under way that the image does not show yet. The last word counts (`DirectoryAssignments`), so what was
reported last stands for the image until the image says the same.
"""

from __future__ import annotations

from uuid import UUID

from ...controller import LOST_DIRECTORY
from ...log.keeper import LogManager
from ...protocol import TopicIdPartition, TopicPartition
from ..cluster.view import NO_LEADER, ClusterView, PartitionRegistration


class ReplicaDirectories:
    """The directories of the replicas of broker `node_id`."""

    def __init__(self, view: ClusterView, logs: LogManager, node_id: int) -> None:
        self.promised: dict[TopicIdPartition, UUID] = {}
        """The directories that replicas are about to be in, to be reported in place of those that they are in."""
        self._view = view
        self._logs = logs
        self._node_id = node_id
        self._reported: dict[TopicIdPartition, UUID] = {}
        """What the image has not confirmed yet."""
        self._were_lost: set[TopicIdPartition] = set()

    def report_lost(self, key: TopicIdPartition, registration: PartitionRegistration) -> None:
        """The replica can neither lead nor stay in the ISR."""
        if registration.directory_of(self._node_id) not in self._logs.offline_directory_ids:
            self._were_lost.add(key)
            self._report(key, registration, LOST_DIRECTORY)

    def report_in_use(self, key: TopicIdPartition, registration: PartitionRegistration) -> None:
        """The replica serves from where its log is open."""
        directory_id = self._logs.directory_id_of(key.topic_partition)
        if directory_id is not None:
            directory_id = self.promised.get(key, directory_id)
        is_kept = len(registration.directories) > 0 or key in self._were_lost
        if directory_id is None or not is_kept:
            return
        known = registration.directory_of(self._node_id)
        self._report(key, registration, directory_id)
        if key in self._were_lost and known == directory_id and key not in self._reported:
            # The last member of an ISR gets a leader only through a change: state the directory that is already known
            # again.
            if registration.leader == NO_LEADER and self._node_id in registration.isr:
                self._view.assign_directory(key, directory_id)
            else:
                self._were_lost.discard(key)

    def forget(self, name: TopicPartition) -> None:
        """The partition is not hosted any longer."""
        for key in [key for key in (*self._reported, *self._were_lost) if key.topic_partition == name]:
            self._reported.pop(key, None)
            self._were_lost.discard(key)

    def _report(self, key: TopicIdPartition, registration: PartitionRegistration, directory_id: UUID) -> None:
        known = registration.directory_of(self._node_id)
        reported = self._reported.get(key)
        if reported is not None and reported == known:
            del self._reported[key]
            reported = None
        if directory_id != (known if reported is None else reported):
            self._reported[key] = directory_id
            self._view.assign_directory(key, directory_id)
