"""Elections on request: ElectLeaders, the balancing of preferred leaders, and leaderless partitions once unclean
elections are allowed. Elections that follow from the start and end of brokers are in `broker_changes`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from ...protocol import ErrorCode, KafkaError
from ...protocol.messages.topics import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    ElectLeadersResponsePartitionResult,
    ReplicaElectionResult,
)
from ..image.registrations import NO_LEADER, PartitionKey, PartitionRegistration
from ..records import LEADER_UNCHANGED, MetadataRecord, PartitionChangeRecord
from .broker_changes import election_of
from .partition_change import Election, PartitionChange
from .state import ControllerResult, ControllerState
from .thin import Warmth

PREFERRED: Final = 0
UNCLEAN: Final = 1
_REASONS: Final = {
    Warmth.THIN: "most of its log is in the tier only, and a fuller replica leads: wait until it has warmed",
    Warmth.UNKNOWN: "its broker has not reported yet whether most of its log is in the tier only: try again",
    Warmth.FULL: "another replica comes first",
}
_ELECTIONS: Final = {PREFERRED: Election.PREFERRED, UNCLEAN: Election.UNCLEAN}


def elect_leaders(state: ControllerState, request: ElectLeadersRequest) -> ControllerResult[ElectLeadersResponse]:
    """ElectLeaders (KIP-460). Without a list all partitions are tried, and those that need nothing are not named.

    An operator who asks for an unclean election gets one whatever the configs say, also of a replica that has lost its
    log where no other is left.
    """
    election = _ELECTIONS.get(request.election_type)
    if election is None:
        refused = ElectLeadersResponse(error_code=ErrorCode.invalid_request, replica_election_results=())
        return ControllerResult([], refused)
    records: list[MetadataRecord] = []
    decided: set[PartitionKey] = set()
    results: dict[str, list[ElectLeadersResponsePartitionResult]] = {}
    is_for_all = request.topic_partitions is None
    for topic, partition in _asked(state, request, election):
        code, message = ErrorCode.none, None
        try:
            records.append(_elect_one(state, topic, partition, election, decided))
        except KafkaError as error:
            code, message = error.code, error.message
        if not (is_for_all and code is ErrorCode.election_not_needed):
            results.setdefault(topic, []).append(
                ElectLeadersResponsePartitionResult(partition_id=partition, error_code=code, error_message=message)
            )
    elected = tuple(
        ReplicaElectionResult(topic=topic, partition_result=tuple(partitions)) for topic, partitions in results.items()
    )
    return ControllerResult(records, ElectLeadersResponse(replica_election_results=elected), is_atomic=False)


def _asked(state: ControllerState, request: ElectLeadersRequest, election: Election) -> Iterable[tuple[str, int]]:
    if request.topic_partitions is not None:
        return [(item.topic, number) for item in request.topic_partitions for number in item.partitions]
    indexes = state.image.indexes
    keys = indexes.not_preferred if election is Election.PREFERRED else indexes.leaderless
    return sorted((state.image.topics[key.topic_id].name, key.partition) for key in keys)


def _elect_one(
    state: ControllerState, name: str, partition: int, election: Election, decided: set[PartitionKey]
) -> PartitionChangeRecord:
    topic = state.image.topic(name)
    before = None if topic is None else topic.partitions.get(partition)
    if topic is None or before is None:
        raise KafkaError(ErrorCode.unknown_topic_or_partition, f"{name}-{partition} does not exist")
    key = PartitionKey(topic.topic_id, partition)
    is_preferred = election is Election.PREFERRED
    has_it = before.leader == before.preferred_leader if is_preferred else before.leader != NO_LEADER
    if has_it or key in decided:
        raise KafkaError(ErrorCode.election_not_needed, f"{state.image.name(key)} is led by {before.leader} already")
    record = PartitionChange(state, key, before, election=election, is_any_live_replica_taken=not is_preferred).build()
    if record is None or record.leader in (LEADER_UNCHANGED, NO_LEADER):
        raise _not_available(state, key, before, is_preferred=is_preferred)
    decided.add(key)
    return record


def _not_available(
    state: ControllerState, key: PartitionKey, before: PartitionRegistration, *, is_preferred: bool
) -> KafkaError:
    name = state.image.name(key)
    if not is_preferred:
        return KafkaError(
            ErrorCode.eligible_leaders_not_available, f"{name}: none of the replicas {list(before.replicas)} is live"
        )
    first = before.preferred_leader
    if first not in before.isr or not state.can_lead(before, first):
        reason = "it is not a live member of the ISR"
    else:
        reason = _REASONS[state.warmth(key, first)]
    return KafkaError(ErrorCode.preferred_leader_not_available, f"{name}: broker {first} cannot lead: {reason}")


def balance_leaders(state: ControllerState) -> ControllerResult[bool]:
    """Elect preferred leaders for partitions that have another, up to the limit of one round.

    The response says whether more may be left.
    """
    maximum = state.config.elections_per_imbalance_max
    found = _preferred(state, state.image.indexes.not_preferred)
    records = list(islice(found, maximum))
    return ControllerResult(records, len(records) == maximum, is_atomic=False)


def return_leaders(state: ControllerState, keys: Iterable[PartitionKey]) -> Iterator[PartitionChangeRecord]:
    """Elect preferred leaders for those of `keys` that still exist and have another leader."""
    return _preferred(state, (key for key in keys if key in state.image.indexes.not_preferred))


def _preferred(state: ControllerState, keys: Iterable[PartitionKey]) -> Iterator[PartitionChangeRecord]:
    for key in keys:
        before = state.image.registration(key)
        record = PartitionChange(state, key, before, election=Election.PREFERRED).build()
        if record is not None:
            yield record


def elect_leaderless(state: ControllerState) -> Iterator[PartitionChangeRecord]:
    """Elect leaders for partitions without one, as far as the configs allow, which may have changed since."""
    for key in state.image.indexes.leaderless:
        registration = state.image.registration(key)
        record = PartitionChange(state, key, registration, election=election_of(state, key)).build()
        if record is not None:
            yield record


def complete_reassignments(state: ControllerState) -> Iterator[PartitionChangeRecord]:
    """Return the reassignments that could end but whose last step was not written, such as by another release."""
    for key in state.image.indexes.reassigning:
        registration = state.image.registration(key)
        if registration.leader != NO_LEADER:
            record = PartitionChange(state, key, registration, election=election_of(state, key)).build()
            if record is not None:
                yield record
