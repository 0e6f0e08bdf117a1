"""AlterPartition and AssignReplicasToDirs: what brokers report about their own replicas.

AlterPartition is how a leader changes its ISR, and the fence against a leader of the past: it must name the leader
epoch and the partition epoch that hold now.

| the request | answer |
|---|---|
| broker unknown / under another epoch | BROKER_ID_NOT_REGISTERED / STALE_BROKER_EPOCH, for the whole request |
| topic id / partition unknown | UNKNOWN_TOPIC_ID / UNKNOWN_TOPIC_OR_PARTITION |
| leader or partition epoch above ours | NOT_CONTROLLER: we are the ones from the past |
| leader epoch below | FENCED_LEADER_EPOCH |
| not the leader | INVALID_REQUEST |
| partition epoch below | INVALID_UPDATE_VERSION |
| ISR empty, with doubles, not among the replicas, without the leader | INVALID_REQUEST |
| recovering with more than the leader in the ISR, or again after recovery | INVALID_REQUEST |
| a member fenced, stopping, unknown, or registered under another epoch | INELIGIBLE_REPLICA |
| the change ends a reassignment, and another broker leads after it | NEW_LEADER_ELECTED |
"""

from __future__ import annotations

from uuid import UUID

from ...protocol import ErrorCode, KafkaError
from ...protocol.messages.brokers import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    AssignReplicasToDirsResponseDirectoryData,
    AssignReplicasToDirsResponsePartitionData,
    AssignReplicasToDirsResponseTopicData,
    BrokerState,
)
from ..image.image import MetadataImage
from ..image.registrations import (
    NO_LEADER,
    RECOVERED,
    RECOVERING,
    UNKNOWN_BROKER_EPOCH,
    BrokerRegistration,
    PartitionKey,
    PartitionRegistration,
)
from ..records import MetadataRecord, PartitionChangeRecord
from .broker_changes import election_of
from .partition_change import PartitionChange
from .state import ControllerResult, ControllerState, check_broker_epoch, find_duplicates, is_online

_UNKNOWN_LEADER = -1


def alter_partition(state: ControllerState, request: AlterPartitionRequest) -> ControllerResult[AlterPartitionResponse]:
    """AlterPartition; each partition is changed, or refused, by itself."""
    try:
        check_broker_epoch(state.image, request.broker_id, request.broker_epoch)
    except KafkaError as error:
        return ControllerResult([], AlterPartitionResponse(error_code=error.code, topics=()), refusal=error.message)
    records: list[MetadataRecord] = []
    decided: set[PartitionKey] = set()
    topics = tuple(
        AlterPartitionResponseTopicData(
            topic_id=topic.topic_id,
            partitions=tuple(
                _alter_one(state, request.broker_id, topic.topic_id, item, records, decided)
                for item in topic.partitions
            ),
        )
        for topic in request.topics
    )
    return ControllerResult(records, AlterPartitionResponse(topics=topics), is_atomic=False)


def _alter_one(
    state: ControllerState,
    broker_id: int,
    topic_id: UUID | None,
    asked: AlterPartitionRequestPartitionData,
    records: list[MetadataRecord],
    decided: set[PartitionKey],
) -> AlterPartitionResponsePartitionData:
    try:
        key, before = _find(state.image, topic_id, asked.partition_index)
        if key in decided:
            raise KafkaError(ErrorCode.invalid_request, f"{state.image.name(key)} is asked for twice")
        _check(state, broker_id, key, before, asked)
    except KafkaError as error:
        return _refused(asked.partition_index, error.code)
    # A smaller ISR commits records sooner, so it must not count before it is in the log: the leader keeps the larger
    # one until it gets this response (KIP-497). The epochs checked above make sure that no other change came between.
    isr = tuple(item.broker_id for item in asked.new_isr_with_epochs)
    change = PartitionChange(
        state,
        key,
        before,
        election=election_of(state, key),
        isr=tuple(replica for replica in before.replicas if replica in isr),
        recovery_state=asked.leader_recovery_state,
    )
    record = change.build()
    if record is None:
        return _registered(key, before)
    records.append(record)
    decided.add(key)
    after = before.changed_by(record)
    return (
        _registered(key, after) if after.leader == broker_id else _refused(key.partition, ErrorCode.new_leader_elected)
    )


def _find(image: MetadataImage, topic_id: UUID | None, partition: int) -> tuple[PartitionKey, PartitionRegistration]:
    if topic_id is None or topic_id not in image.topics:
        raise KafkaError(ErrorCode.unknown_topic_id, f"no topic has the id {topic_id}")
    key = PartitionKey(image.topics[topic_id].topic_id, partition)
    registration = image.partition(key)
    if registration is None:
        raise KafkaError(ErrorCode.unknown_topic_or_partition, f"{image.name(key)} does not exist")
    return key, registration


def _check(
    state: ControllerState,
    broker_id: int,
    key: PartitionKey,
    before: PartitionRegistration,
    asked: AlterPartitionRequestPartitionData,
) -> None:
    name = state.image.name(key)
    _check_epochs(broker_id, name, before, asked)
    isr = [item.broker_id for item in asked.new_isr_with_epochs]
    if not isr or find_duplicates(isr) or not set(isr) <= set(before.replicas) or broker_id not in isr:
        raise KafkaError(
            ErrorCode.invalid_request,
            f"{name}: ISR {isr} must be different ones of {before.replicas}, the leader {broker_id} among them",
        )
    recovery = asked.leader_recovery_state
    is_known = recovery in (RECOVERED, RECOVERING)
    if not is_known or (recovery == RECOVERING and (len(isr) > 1 or before.leader_recovery_state == RECOVERED)):
        raise KafkaError(
            ErrorCode.invalid_request,
            f"{name}: recovery state {recovery} with ISR {isr}, where it is {before.leader_recovery_state} now",
        )
    # A member is fit under the epoch that the leader saw it fetch with: a broker that restarted since may have lost its
    # log (KIP-903).
    unfit = [item.broker_id for item in asked.new_isr_with_epochs if not _may_join(state.image, item)]
    if unfit:
        raise KafkaError(ErrorCode.ineligible_replica, f"{name}: brokers {unfit} are fenced, stopping, or not the same")


def _check_epochs(
    broker_id: int, name: str, before: PartitionRegistration, asked: AlterPartitionRequestPartitionData
) -> None:
    # Future epochs mean that this controller is the one that is out of date. An older partition epoch means that the
    # leader decided without a change it has not seen: taking its ISR could bring back a member that was removed.
    if asked.leader_epoch > before.leader_epoch or asked.partition_epoch > before.partition_epoch:
        raise KafkaError(ErrorCode.not_controller, f"{name}: epochs from a future that this controller does not know")
    if asked.leader_epoch < before.leader_epoch:
        raise KafkaError(
            ErrorCode.fenced_leader_epoch, f"{name}: leader epoch {asked.leader_epoch}, now it is {before.leader_epoch}"
        )
    if broker_id != before.leader:
        raise KafkaError(ErrorCode.invalid_request, f"{name}: broker {broker_id} asks, {before.leader} is the leader")
    if asked.partition_epoch < before.partition_epoch:
        raise KafkaError(
            ErrorCode.invalid_update_version,
            f"{name}: partition epoch {asked.partition_epoch}, now it is {before.partition_epoch}",
        )


def _may_join(image: MetadataImage, member: BrokerState) -> bool:
    broker = image.brokers.get(member.broker_id)
    return broker is not None and broker.is_active and member.broker_epoch in (UNKNOWN_BROKER_EPOCH, broker.epoch)


def _registered(key: PartitionKey, registration: PartitionRegistration) -> AlterPartitionResponsePartitionData:
    return AlterPartitionResponsePartitionData(
        partition_index=key.partition,
        leader_id=registration.leader,
        leader_epoch=registration.leader_epoch,
        isr=registration.isr,
        leader_recovery_state=registration.leader_recovery_state,
        partition_epoch=registration.partition_epoch,
    )


def _refused(partition: int, code: ErrorCode) -> AlterPartitionResponsePartitionData:
    return AlterPartitionResponsePartitionData(
        partition_index=partition, error_code=code, leader_id=_UNKNOWN_LEADER, leader_epoch=-1, partition_epoch=-1
    )


def assign_replicas_to_dirs(
    state: ControllerState, request: AssignReplicasToDirsRequest
) -> ControllerResult[AssignReplicasToDirsResponse]:
    """Record in which directory a broker put its replicas (AssignReplicasToDirs, KIP-858). A replica in a directory
    that the broker no longer has counts as lost; one that is back may lead where no replica does.
    """
    try:
        broker = check_broker_epoch(state.image, request.broker_id, request.broker_epoch)
    except KafkaError as error:
        response = AssignReplicasToDirsResponse(error_code=error.code, directories=())
        return ControllerResult([], response, refusal=error.message)
    records: list[MetadataRecord] = []
    decided: set[PartitionKey] = set()
    directories = tuple(
        AssignReplicasToDirsResponseDirectoryData(
            id_=directory.id_,
            topics=tuple(
                AssignReplicasToDirsResponseTopicData(
                    topic_id=topic.topic_id,
                    partitions=tuple(
                        AssignReplicasToDirsResponsePartitionData(
                            partition_index=item.partition_index,
                            error_code=_assign_one(
                                state, broker, directory.id_, topic.topic_id, item.partition_index, records, decided
                            ),
                        )
                        for item in topic.partitions
                    ),
                )
                for topic in directory.topics
            ),
        )
        for directory in request.directories
    )
    return ControllerResult(records, AssignReplicasToDirsResponse(directories=directories), is_atomic=False)


def _assign_one(
    state: ControllerState,
    broker: BrokerRegistration,
    directory: UUID | None,
    topic_id: UUID | None,
    partition: int,
    records: list[MetadataRecord],
    decided: set[PartitionKey],
) -> ErrorCode:
    try:
        key, before = _find(state.image, topic_id, partition)
    except KafkaError as error:
        return error.code
    if broker.broker_id not in before.replicas:
        return ErrorCode.not_leader_or_follower
    if key in decided:
        return ErrorCode.invalid_request
    if before.directory_of(broker.broker_id) == directory:
        return ErrorCode.none
    decided.add(key)
    assigned = tuple(
        directory if replica == broker.broker_id else before.directory_of(replica) for replica in before.replicas
    )
    record = PartitionChangeRecord(partition_id=partition, topic_id=key.topic_id, directories=assigned)
    records.append(record)
    after = before.changed_by(record)
    is_gone = not is_online(directory, broker)
    if broker.broker_id in after.isr and (is_gone or after.leader == NO_LEADER):
        isr = tuple(replica for replica in after.isr if replica != broker.broker_id) if is_gone else after.isr
        change = PartitionChange(state, key, after, election=election_of(state, key), isr=isr).build()
        records += [] if change is None else [change]
    return ErrorCode.none
