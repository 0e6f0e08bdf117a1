"""New partitions of a topic: given by hand or placed, checked, and turned into records. For CreateTopics and
CreatePartitions alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from uuid import UUID

from ...protocol import ErrorCode, KafkaError
from ..records import PartitionRecord
from .state import ControllerState, find_duplicates


def check_assignment(
    state: ControllerState, replicas: Sequence[int], replication_factor: int | None, what: str
) -> None:
    """INVALID_REPLICA_ASSIGNMENT unless `replicas` are different registered brokers, as many as asked for."""
    problem = None
    unknown = sorted({replica for replica in replicas if replica not in state.image.brokers})
    twice = find_duplicates(replicas)
    if not replicas:
        problem = "is empty"
    elif twice:
        problem = f"names {sorted(twice)} more than once"
    elif unknown:
        problem = f"names brokers {unknown}, which are not registered; those are {sorted(state.image.brokers)}"
    elif replication_factor is not None and len(replicas) != replication_factor:
        problem = f"has {len(replicas)} replicas where other partitions have {replication_factor}"
    if problem:
        raise KafkaError(ErrorCode.invalid_replica_assignment, f"{what}: assignment {list(replicas)} {problem}")


def new_partitions(
    state: ControllerState,
    topic_id: UUID,
    first: int,
    assignments: Sequence[tuple[int, ...]],
    *,
    leader_epoch: int = 0,
) -> Iterator[PartitionRecord]:
    """The records of partitions `first` and up. The ISR begins with the live replicas, the first of them leads."""
    for number, replicas in enumerate(assignments, first):
        isr = tuple(replica for replica in replicas if state.image.is_active(replica))
        if not isr:
            raise KafkaError(
                ErrorCode.invalid_replica_assignment,
                f"partition {number}: brokers {list(replicas)} are all fenced or stopping; one must be live to lead",
            )
        yield PartitionRecord(
            partition_id=number,
            topic_id=topic_id,
            replicas=replicas,
            isr=isr,
            removing_replicas=(),
            adding_replicas=(),
            leader=isr[0],
            leader_epoch=leader_epoch,
            partition_epoch=0,
            directories=tuple(state.image.brokers[replica].default_directory for replica in replicas),
        )
