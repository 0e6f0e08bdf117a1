"""BrokerRegistration, ControllerRegistration and UnregisterBroker.

Registering is where a broker says which incarnation it is and which directories it has, and so where the cluster learns
that data may be lost. The batch that registers a broker also takes it out of ISRs, so that no moment exists in which
the new incarnation counts as the old one:

| against the registration before | its replicas |
|---|---|
| the same incarnation (a retry) | nothing changes; fenced or not stays as it was |
| a directory is missing | leave every ISR, also as the last member, unless known to be in one that is present |
| the broker was unregistered meanwhile | the same, measured by the directories of its replicas |
| the same, and its session is not over (it may be shutting down) | refused where an ISR would be left empty |
| stopped uncleanly, or cleanly | leave every ISR but as the last member; a fenced broker leads nothing |

A replica that continues to lead does so under a new leader epoch: the broker first loses the leadership.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from uuid import UUID

from ...protocol import ErrorCode, KafkaError
from ...protocol.messages.brokers import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from ..image.image import METADATA_VERSION
from ..image.registrations import BrokerRegistration, PartitionKey, PartitionRegistration, is_reserved_directory
from ..records import (
    BrokerEndpoint,
    BrokerFeature,
    MetadataRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnregisterBrokerRecord,
)
from .broker_changes import IsLost, without_broker
from .features import check_supports_finalized, ranges
from .state import ControllerResult, ControllerState, Moment, find_duplicates


def register_broker(
    state: ControllerState,
    request: BrokerRegistrationRequest,
    moment: Moment,
    *,
    is_superseded: bool = False,
    is_recently_fenced: bool = False,
) -> ControllerResult[BrokerRegistrationResponse]:
    """Register a broker; its epoch is the offset of the first record. `is_superseded`: the incarnation that is
    registered has ended, whatever its session says. `is_recently_fenced`: it was fenced less than a session ago.
    """
    try:
        _check_registration(state, request, moment, is_superseded)
        if is_superseded or is_recently_fenced or _is_alive(state, request.broker_id, moment):
            _check_empties_no_isr(state, request)
    except KafkaError as error:
        return ControllerResult([], BrokerRegistrationResponse(error_code=error.code), refusal=error.message)
    before = state.image.brokers.get(request.broker_id)
    is_retry = before is not None and before.incarnation_id == request.incarnation_id
    directories = request.log_dirs
    records: list[MetadataRecord] = [
        RegisterBrokerRecord(
            broker_id=request.broker_id,
            incarnation_id=request.incarnation_id,
            broker_epoch=moment.next_offset,
            end_points=_end_points(request),
            features=_features(request),
            rack=request.rack,
            fenced=before.fenced if is_retry and before is not None else True,
            in_controlled_shutdown=before.in_controlled_shutdown if is_retry and before is not None else False,
            log_dirs=directories,
            cordoned_log_dirs=before.cordoned_directories if is_retry and before is not None else None,
        )
    ]
    if not is_retry:
        records += without_broker(state, request.broker_id, _is_lost(before, request.broker_id, directories))
    response = BrokerRegistrationResponse(broker_epoch=moment.next_offset)
    return ControllerResult(records, response, base_offset=moment.next_offset)


def _is_lost(before: BrokerRegistration | None, broker_id: int, directories: Collection[UUID | None]) -> IsLost:
    """Which of the broker's replicas cannot be what they were."""
    has_lost_directory = before is None or not set(before.directories) <= set(directories)
    if not has_lost_directory:
        return lambda _: False

    def is_lost(registration: PartitionRegistration) -> bool:
        directory = registration.directory_of(broker_id)
        return is_reserved_directory(directory) or directory not in directories

    return is_lost


def _check_registration(
    state: ControllerState, request: BrokerRegistrationRequest, moment: Moment, is_superseded: bool
) -> None:
    broker = f"broker {request.broker_id}"
    if request.cluster_id != state.config.cluster_id:
        raise KafkaError(
            ErrorCode.inconsistent_cluster_id,
            f"{broker} belongs to cluster {request.cluster_id}, this is {state.config.cluster_id}",
        )
    _check_incarnation(state, request, moment, is_superseded)
    _check_directories(state, request)
    if not request.listeners:
        raise KafkaError(ErrorCode.invalid_registration, f"{broker} has no listener, so that no client could reach it")
    supported = ranges(_features(request))
    if METADATA_VERSION not in supported:
        raise KafkaError(ErrorCode.invalid_registration, f"{broker} does not say which {METADATA_VERSION} it supports")
    check_supports_finalized(state, broker, supported)


def _check_incarnation(
    state: ControllerState, request: BrokerRegistrationRequest, moment: Moment, is_superseded: bool
) -> None:
    if request.broker_id < 0 or request.incarnation_id is None:
        raise KafkaError(
            ErrorCode.invalid_registration,
            f"broker id {request.broker_id} with incarnation {request.incarnation_id}: an id of 0 or above and a random"
            " incarnation are needed",
        )
    before = state.image.brokers.get(request.broker_id)
    if before is None or before.incarnation_id == request.incarnation_id or before.in_controlled_shutdown:
        return
    if not is_superseded and _is_alive(state, request.broker_id, moment):
        raise KafkaError(
            ErrorCode.duplicate_broker_registration,
            f"broker {request.broker_id} is registered and alive as incarnation {before.incarnation_id}; if that"
            " process has ended, try again when its session is over",
        )


def _is_alive(state: ControllerState, broker_id: int, moment: Moment) -> bool:
    """Return whether the session of the registered incarnation lasts; also of one that is shutting down."""
    broker = state.image.brokers.get(broker_id)
    return broker is not None and state.sessions.is_valid(broker, moment.now_ms, state.config.session_timeout_ms)


def _check_empties_no_isr(state: ControllerState, request: BrokerRegistrationRequest) -> None:
    """Without the directories of the one before, only the end of its session lets a newcomer leave a last ISR: the
    only copy may be on a process that lives after all.
    """
    broker_id = request.broker_id
    before = state.image.brokers.get(broker_id)
    if before is None or before.incarnation_id == request.incarnation_id:
        return
    is_lost = _is_lost(before, broker_id, request.log_dirs)
    emptied = [
        key
        for key in state.image.indexes.with_broker_in_isr(broker_id)
        if (registration := state.image.registration(key)).isr == (broker_id,) and is_lost(registration)
    ]
    if emptied:
        raise KafkaError(
            ErrorCode.duplicate_broker_registration,
            f"broker {broker_id} registers without a directory of incarnation {before.incarnation_id}, the only in-sync"
            f" replica of {state.image.name(emptied[0])}: it is registered when the session of that one is over",
        )


def _check_directories(state: ControllerState, request: BrokerRegistrationRequest) -> None:
    broker = f"broker {request.broker_id}"
    directories = request.log_dirs
    if not directories:
        raise KafkaError(ErrorCode.invalid_registration, f"{broker} has no log directory")
    wrong = [directory for directory in directories if is_reserved_directory(directory)]
    if wrong or find_duplicates(directories):
        raise KafkaError(
            ErrorCode.invalid_registration,
            f"{broker}: directory ids {list(map(str, directories))} must be different and none of the reserved ones",
        )
    for other in state.image.brokers.values():
        shared = set(directories) & set(other.directories)
        if other.broker_id != request.broker_id and shared:
            raise KafkaError(
                ErrorCode.invalid_registration,
                f"{broker}: directories {sorted(map(str, shared))} are those of broker {other.broker_id}: was a disk"
                " copied?",
            )


def _end_points(request: BrokerRegistrationRequest | ControllerRegistrationRequest) -> tuple[BrokerEndpoint, ...]:
    return tuple(
        BrokerEndpoint(name=item.name, host=item.host, port=item.port, security_protocol=item.security_protocol)
        for item in request.listeners
    )


def _features(request: BrokerRegistrationRequest | ControllerRegistrationRequest) -> tuple[BrokerFeature, ...]:
    return tuple(
        BrokerFeature(
            name=item.name,
            min_supported_version=item.min_supported_version,
            max_supported_version=item.max_supported_version,
        )
        for item in request.features
    )


def register_controller(
    state: ControllerState, request: ControllerRegistrationRequest
) -> ControllerResult[ControllerRegistrationResponse]:
    """ControllerRegistration: a controller says which features it supports."""
    features = _features(request)
    try:
        check_supports_finalized(state, f"controller {request.controller_id}", ranges(features))
    except KafkaError as error:
        response = ControllerRegistrationResponse(error_code=error.code, error_message=error.message)
        return ControllerResult([], response)
    record = RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        zk_migration_ready=False,
        end_points=_end_points(request),
        features=features,
    )
    return ControllerResult([record], ControllerRegistrationResponse(error_message=None))


def unregister_broker(
    state: ControllerState, request: UnregisterBrokerRequest
) -> ControllerResult[UnregisterBrokerResponse]:
    """UnregisterBroker: the cluster forgets a broker that will not come back."""
    try:
        broker = _removable(state, request.broker_id)
    except KafkaError as error:
        return ControllerResult([], UnregisterBrokerResponse(error_code=error.code, error_message=error.message))
    records: list[MetadataRecord] = list(without_broker(state, broker.broker_id))
    records.append(UnregisterBrokerRecord(broker_id=broker.broker_id, broker_epoch=broker.epoch))
    return ControllerResult(records, UnregisterBrokerResponse(error_message=None))


def _removable(state: ControllerState, broker_id: int) -> BrokerRegistration:
    """Return the broker if it may be unregistered. KafkaError, unlike Kafka, if it alone has a partition's data, or if
    its replicas would no longer find a place.
    """
    broker = state.image.brokers.get(broker_id)
    if broker is None:
        raise KafkaError(ErrorCode.broker_id_not_registered, f"broker {broker_id} is not registered")
    sole = [
        key
        for key in state.image.indexes.with_broker_in_isr(broker_id)
        if state.image.registration(key).isr == (broker_id,)
    ]
    if sole:
        raise KafkaError(
            ErrorCode.policy_violation,
            f"broker {broker_id} is the only in-sync replica of {len(sole)} partitions, such as"
            f" {state.image.name(sole[0])}: reassign them, or delete their topics, before it is removed",
        )
    left = len(state.image.brokers) - 1
    homeless = [key for key, replicas in _replicas_on(state, broker_id) if len(replicas) > left]
    if homeless:
        raise KafkaError(
            ErrorCode.policy_violation,
            f"{len(homeless)} partitions with a replica on broker {broker_id}, such as {state.image.name(homeless[0])},"
            f" have more replicas than the {left} brokers that would be left: add a broker, or reassign them to fewer",
        )
    return broker


def _replicas_on(state: ControllerState, broker_id: int) -> Iterator[tuple[PartitionKey, tuple[int, ...]]]:
    for topic_id, topic in state.image.topics.items():
        for number, registration in topic.partitions.items():
            if broker_id in registration.replicas:
                yield PartitionKey(topic_id, number), registration.replicas
