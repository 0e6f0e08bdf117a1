"""Whether a replica that joins an ISR has the batches of its leader, byte for byte.

| invariant  | violated when                                                                                         |
|------------|-------------------------------------------------------------------------------------------------------|
| same bytes | a leader asks for a replica in its ISR, and the files of the two have different batches at one offset |
|            | below the leader's high watermark                                                                     |

Offset and leader epoch name one record, but only within one incarnation of a topic. A broker that takes the log of an
earlier incarnation for the topic's has all the offsets, in the same epochs: only the bytes differ (`side_value`). What
a file has not, or not yet, is not compared. Nothing is demanded where the fault model allows a loss, nor of a replica
that believes in another incarnation than the cluster has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from ...broker.cluster import ClusterImage
from ...protocol import TopicIdPartition
from ..machine.filesystem import SimFilesystem
from .core.events import JoinersRequested, Observed
from .core.partition import InvariantViolationError, Replicas, ReplicaStatus
from .core.replicas import headers_of


class JoinedBatchesJudge:
    """`files` are the disks by broker id, which keep the log of a replica in `place`. `is_exempt` says of which
    partitions nothing is demanded now.
    """

    def __init__(
        self,
        replicas: Replicas,
        image: Callable[[], ClusterImage],
        files: Mapping[int, SimFilesystem],
        place: Callable[[int, TopicIdPartition], Path],
        is_exempt: Callable[[TopicIdPartition], bool],
    ) -> None:
        self._replicas = replicas
        self._image = image
        self._files = files
        self._place_of = place
        self._is_exempt = is_exempt
        self.batches_compared = 0

    def on(self, event: Observed) -> None:
        """InvariantViolationError."""
        if isinstance(event, JoinersRequested) and self._is_judged(event.partition):
            for joiner in sorted(event.brokers):
                if self._replicas.status(joiner, event.partition) is not None:
                    self._compare(event.partition, event.leader, joiner)

    def _is_judged(self, name: TopicIdPartition) -> bool:
        return self._image().topic_names.get(name.topic_id) == name.topic and not self._is_exempt(name)

    def _compare(self, name: TopicIdPartition, leader: ReplicaStatus, joiner: int) -> None:
        """InvariantViolationError."""
        leaders, joiners = self._stored(leader.node_id, name), self._stored(joiner, name)
        for offset, checksum in joiners.items():
            if offset >= leader.high_watermark or offset not in leaders:
                continue
            self.batches_compared += 1
            if leaders[offset] != checksum:
                detail = f"{name.topic_partition}: {leader.node_id} asks for {joiner} in its ISR"
                where = f"their batches at {offset} differ, {leader.high_watermark} is committed"
                raise InvariantViolationError("same bytes", f"{detail}, {where}")

    def _stored(self, node_id: int, name: TopicIdPartition) -> dict[int, int]:
        """The checksums of the batches in a replica's files, by their base offsets."""
        return {
            header.base_offset: header.crc
            for path, inode in self._files[node_id].walk(self._place_of(node_id, name))
            if path.suffix == ".log"
            for header in headers_of(bytes(inode.content))
        }
