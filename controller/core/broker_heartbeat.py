"""BrokerHeartbeat: a broker is alive, asks to serve, or asks to shut down; and what happens to a silent one.

| state | the heartbeat says | next |
|---|---|---|
| fenced | asks to shut down | may go at once |
| fenced | asks to serve, and has replayed its own registration | unfenced |
| unfenced | asks to be fenced | fenced |
| unfenced | asks to shut down | controlled shutdown: it leaves ISRs and leadership; may go if it leads nothing |
| controlled shutdown | anything | may go when it leads nothing and every active broker has replayed that |
| unfenced, controlled shutdown | nothing, for a session timeout | fenced |

A broker whose controlled shutdown is granted is fenced in the same batch. What else a heartbeat reports (offline and
cordoned directories, thin replicas) is recorded in every state. A fenced broker that reports directories as offline is
unfenced by a later heartbeat at the earliest: now it would be elected where it has no log.

`observe` takes up what is in no log; `heartbeat` decides and changes nothing. The caller does them in this order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum, auto
from typing import Final
from uuid import UUID

from ...protocol import KafkaError
from ...protocol.messages import brokers as messages
from ...protocol.messages.brokers import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ..image.registrations import BrokerRegistration, PartitionKey
from ..records import BrokerRegistrationChangeRecord, MetadataRecord
from ..records.brokers import FENCED, IN_CONTROLLED_SHUTDOWN, UNFENCED
from .broker_changes import with_broker, without_broker, without_directories
from .state import ControllerResult, ControllerState, Moment, check_broker_epoch
from .thin import ThinReplica

THIN_REPLICAS_MAX: Final = 100_000
"""Entries of one report that are looked at."""


class BrokerControlState(Enum):
    """See the module's table. Kafka calls them so."""

    FENCED = auto()
    UNFENCED = auto()
    CONTROLLED_SHUTDOWN = auto()
    SHUTDOWN_NOW = auto()


def observe_heartbeat(
    state: ControllerState, request: BrokerHeartbeatRequest, moment: Moment
) -> frozenset[PartitionKey]:
    """Take up that the broker lives, how far it has replayed, and which of its replicas are thin; those that no longer
    are.
    """
    try:
        broker = check_broker_epoch(state.image, request.broker_id, request.broker_epoch)
    except KafkaError:
        return frozenset()
    state.sessions.touch(broker.broker_id, broker.epoch, moment.now_ms, request.current_metadata_offset)
    if request.current_metadata_offset < broker.epoch:
        return frozenset()  # what it reports is of another time than its registration
    reported = _thin_replicas(request.thin_replicas[:THIN_REPLICAS_MAX])
    return state.thin.report(broker.broker_id, reported, state.config.warming, request.current_metadata_offset)


def _thin_replicas(reported: Iterable[messages.ThinReplica]) -> Iterator[ThinReplica]:
    for item in reported:
        if item.topic_id is not None:
            key = PartitionKey(item.topic_id, item.partition_index)
            yield ThinReplica(key, item.local_start_offset, item.local_bytes, item.age_ms)


def heartbeat(
    state: ControllerState, request: BrokerHeartbeatRequest, moment: Moment
) -> ControllerResult[BrokerHeartbeatResponse]:
    """BrokerHeartbeat."""
    try:
        broker = check_broker_epoch(state.image, request.broker_id, request.broker_epoch)
    except KafkaError as error:
        response = BrokerHeartbeatResponse(error_code=error.code, should_shut_down=False)
        return ControllerResult([], response, refusal=error.message)
    following = _next_state(state, broker, request)
    records = [*_transition(state, broker, following), *_directories(state, broker, request)]
    is_leaving = following is BrokerControlState.CONTROLLED_SHUTDOWN and not broker.in_controlled_shutdown
    return ControllerResult(
        records,
        BrokerHeartbeatResponse(
            is_caught_up=request.current_metadata_offset >= broker.epoch,
            is_fenced=following in (BrokerControlState.FENCED, BrokerControlState.SHUTDOWN_NOW),
            should_shut_down=following is BrokerControlState.SHUTDOWN_NOW,
        ),
        is_atomic=False,
        leaving=broker.broker_id if is_leaving else None,
    )


def shutdown_began(state: ControllerState, broker_id: int, last_offset: int) -> None:
    """The records with which a broker leaves ISRs and leadership are committed up to `last_offset`: it may go when the
    others have replayed that."""
    session = state.sessions.get(broker_id)
    if session is not None:
        session.controlled_shutdown_offset = last_offset


def current_state(broker: BrokerRegistration) -> BrokerControlState:
    if broker.fenced:
        return BrokerControlState.FENCED
    return BrokerControlState.CONTROLLED_SHUTDOWN if broker.in_controlled_shutdown else BrokerControlState.UNFENCED


def _next_state(
    state: ControllerState, broker: BrokerRegistration, request: BrokerHeartbeatRequest
) -> BrokerControlState:
    match current_state(broker):
        case BrokerControlState.FENCED:
            if request.want_shut_down:
                return BrokerControlState.SHUTDOWN_NOW
            is_caught_up = request.current_metadata_offset >= broker.epoch
            may_serve = is_caught_up and not request.want_fence and not _newly_offline(broker, request)
            return BrokerControlState.UNFENCED if may_serve else BrokerControlState.FENCED
        case BrokerControlState.UNFENCED:
            if request.want_shut_down:
                is_free = request.want_fence or not _leads(state, broker.broker_id)
                return BrokerControlState.SHUTDOWN_NOW if is_free else BrokerControlState.CONTROLLED_SHUTDOWN
            return BrokerControlState.FENCED if request.want_fence else BrokerControlState.UNFENCED
        case _:
            is_done = not _leads(state, broker.broker_id) and _is_shutdown_replayed(state, broker)
            return BrokerControlState.SHUTDOWN_NOW if is_done else BrokerControlState.CONTROLLED_SHUTDOWN


def _leads(state: ControllerState, broker_id: int) -> bool:
    image = state.image
    return any(image.registration(key).leader == broker_id for key in image.indexes.with_broker_in_isr(broker_id))


def _is_shutdown_replayed(state: ControllerState, broker: BrokerRegistration) -> bool:
    """Whether every active broker knows who leads now; true after a failover, which forgets when it began."""
    session = state.sessions.get(broker.broker_id)
    if session is None or session.controlled_shutdown_offset is None:
        return True
    active = [other.broker_id for other in state.image.brokers.values() if other.is_active]
    lowest = state.sessions.lowest_metadata_offset(active)
    return lowest is None or lowest >= session.controlled_shutdown_offset


def _transition(
    state: ControllerState, broker: BrokerRegistration, following: BrokerControlState
) -> Iterator[MetadataRecord]:
    if following is current_state(broker):
        return
    match following:
        case BrokerControlState.UNFENCED:
            yield _change(broker, fenced=UNFENCED)
            yield from with_broker(state, broker.broker_id)
        case BrokerControlState.CONTROLLED_SHUTDOWN:
            yield _change(broker, in_controlled_shutdown=IN_CONTROLLED_SHUTDOWN)
            yield from without_broker(state, broker.broker_id)
        case _:
            yield from fence(state, broker.broker_id)


def fence(state: ControllerState, broker_id: int) -> Iterator[MetadataRecord]:
    """Fence the broker, which counts as dead from now on. Return no records if it is fenced already."""
    broker = state.image.brokers.get(broker_id)
    if broker is None or broker.fenced:
        return
    # One batch: at no moment does a fenced broker lead, or hold back a high watermark as a member of an ISR.
    yield _change(broker, fenced=FENCED)
    yield from without_broker(state, broker_id)


def _directories(
    state: ControllerState, broker: BrokerRegistration, request: BrokerHeartbeatRequest
) -> Iterator[MetadataRecord]:
    offline = _newly_offline(broker, request)
    cordoned = request.cordoned_log_dirs
    if offline:
        remaining = tuple(item for item in broker.directories if item not in offline)
        if remaining:  # without any directory left the broker fences itself; an empty list would say "no change"
            yield BrokerRegistrationChangeRecord(
                broker_id=broker.broker_id, broker_epoch=broker.epoch, log_dirs=remaining
            )
        yield from without_directories(state, broker.broker_id, offline)
    if cordoned is not None and cordoned != (broker.cordoned_directories or ()):
        yield BrokerRegistrationChangeRecord(
            broker_id=broker.broker_id, broker_epoch=broker.epoch, cordoned_log_dirs=cordoned
        )


def _newly_offline(broker: BrokerRegistration, request: BrokerHeartbeatRequest) -> list[UUID]:
    return [item for item in request.offline_log_dirs if item in broker.directories]


def _change(
    broker: BrokerRegistration, *, fenced: int = 0, in_controlled_shutdown: int = 0
) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(
        broker_id=broker.broker_id,
        broker_epoch=broker.epoch,
        fenced=fenced,
        in_controlled_shutdown=in_controlled_shutdown,
    )


def expired(state: ControllerState, now_ms: int) -> list[int]:
    """Unfenced brokers that were silent for a session timeout, the longest silent first."""
    timeout_ms = state.config.session_timeout_ms
    ends = {
        broker.broker_id: state.sessions.expiry_ms(broker, timeout_ms)
        for broker in state.image.brokers.values()
        if not broker.fenced
    }
    return sorted((broker_id for broker_id, end in ends.items() if end <= now_ms), key=lambda item: (ends[item], item))


def next_expiry_ms(state: ControllerState) -> int | None:
    """When the first session ends unless a heartbeat comes; None without an unfenced broker."""
    timeout_ms = state.config.session_timeout_ms
    return min(
        (state.sessions.expiry_ms(broker, timeout_ms) for broker in state.image.brokers.values() if not broker.fenced),
        default=None,
    )
