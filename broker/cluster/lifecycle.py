"""A broker's life in its cluster: registered, alive, serving, leaving (KIP-500, KIP-631).

| state | heartbeats say | next |
|---|---|---|
| UNREGISTERED | none are sent | registered with a new incarnation id: STARTING |
| STARTING | wants to stay fenced | `serve`: RUNNING |
| RUNNING | wants to be unfenced; the controller does it once this node has replayed its own registration | |
| LEAVING | wants to shut down: leaderships move | let go, or out of time: LEFT |

Any state but LEFT: STALE_BROKER_EPOCH or BROKER_ID_NOT_REGISTERED means that the registration is no longer ours: a
new one is made, under the same intent. A broker that could not be heard for a session timeout was fenced and its next
heartbeat unfences it, with no memory of ISRs that it left. Before a session is over, a broker knows by `is_heard` that
it may be fenced: the answered heartbeat that it sent last is older than two intervals.

When the connection of the heartbeats ends, the next one is sent at once, on a new connection: the controller suspects
that this process is gone until it hears it. Once for each heartbeat that was answered, so that a controller that resets
every connection is not flooded.

Registration repeats while another incarnation of the broker has a live session (after kill -9), and until `deadline_s`
for everything else that may pass; what an operator has to repair (a wrong cluster id, an unsupported feature level) is
an error at once.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Sequence
from enum import Enum
from random import Random
from typing import Final
from uuid import UUID

from ...light_dataclass import dataclass
from ...protocol import ErrorCode, KafkaError, Unanswered
from ...protocol.messages.brokers import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationRequestFeature,
    BrokerRegistrationRequestListener,
    ThinReplica,
)
from .controller_channel import ControllerChannel, ControllerUnavailableError
from .view import EndPoint

REGISTRATION_RETRY_S: Final = 0.1
LEAVING_INTERVAL_S: Final = 0.05
HEARD_INTERVALS: Final = 2.0
"""A session lasts for longer: 4.5 intervals by default."""
REPORT_DELAY_S: Final = 0.1
"""What is to be reported soon gathers so long: a report names all thin replicas, and many change in one wave."""
NO_PREVIOUS_EPOCH: Final = -1
_LOST_REGISTRATION: Final = frozenset({ErrorCode.stale_broker_epoch, ErrorCode.broker_id_not_registered})
_PASSING: Final = frozenset({ErrorCode.duplicate_broker_registration, ErrorCode.not_controller})

_ALIVE: Final = "a broker with this node.id is alive; unless it has just died, one of the two needs another id"

_log = logging.getLogger(__name__)


class BrokerState(Enum):
    """See the module's table."""

    UNREGISTERED = "unregistered"
    STARTING = "starting"
    RUNNING = "running"
    LEAVING = "leaving"
    LEFT = "left"


_WAITING_FOR: Final = {
    BrokerState.UNREGISTERED: "its registration with the controller",
    BrokerState.STARTING: "the logs of its replicas to be opened",
    BrokerState.LEAVING: "its end: others take its leaderships over",
    BrokerState.LEFT: "its end",
}
"""What a broker waits for that is not running."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerIdentity:
    """What a registration says. `features`: name, lowest and highest level supported."""

    broker_id: int
    cluster_id: str
    end_points: tuple[EndPoint, ...]
    rack: str | None
    directory_ids: tuple[UUID, ...]
    features: tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleTimes:
    """`registration_s`: how long a start tries; `leaving_s`: how long a stop waits for its leaderships to move."""

    heartbeat_interval_s: float = 2.0
    request_timeout_s: float = 4.5
    registration_s: float = 60.0
    leaving_s: float = 30.0


class BrokerLifecycle:
    """`register`, `serve`, `leave`; then `close`. `replayed_offset` is the last offset this node has applied."""

    def __init__(
        self, channel: ControllerChannel, rng: Random, replayed_offset: Callable[[], int], times: LifecycleTimes
    ) -> None:
        self.state = BrokerState.UNREGISTERED
        self.broker_epoch = -1
        self._channel = channel
        self._rng = rng
        self._replayed_offset = replayed_offset
        self._times = times
        self._identity: BrokerIdentity | None = None
        self.incarnation_id = UUID(int=rng.getrandbits(128), version=4)
        """The id of this process."""
        self._previous_epoch = NO_PREVIOUS_EPOCH
        self._beating: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._soon: asyncio.TimerHandle | None = None
        self._changed = asyncio.Condition()
        self.thin_replicas: Callable[[], Sequence[ThinReplica]] = tuple
        """What heartbeats report (see `thin_replicas`)."""
        self.offline_directories: Callable[[], Sequence[UUID]] = tuple
        """The same; `report` when there are more."""
        self._is_fenced = True
        self._is_connected = False
        """The last heartbeat was answered, and its connection has not ended since."""
        self._answered_s = -math.inf
        """When the last request was sent that a controller has answered, by the loop's clock."""
        self.obstacle = ""
        """Why the controller did not register this broker when it was asked last."""
        self.failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Done, with the reason, when this broker can no longer send heartbeats, has nowhere to store, or must not use
        its tier.
        """

    async def register(self, identity: BrokerIdentity, previous_epoch: int, within_s: float | None = None) -> int:
        """The broker's epoch. `previous_epoch`: of the run before if it ended in order, else -1. KafkaError for what an
        operator has to repair, ControllerUnavailableError if no controller took it `within_s`, `registration_s` where
        that is not given.
        """
        self._identity, self._previous_epoch = identity, previous_epoch
        await self._register(within_s)
        self._beating = asyncio.create_task(self._beat(), name="broker-heartbeats")
        self._beating.add_done_callback(self._beating_ended)
        return self.broker_epoch

    @property
    def unanswered(self) -> Unanswered:
        """Which controllers did not answer when they were asked last."""
        return self._channel.unanswered

    @property
    def is_heard(self) -> bool:
        """Whether no session can be over that the controllers have kept for this broker: see `ClusterView`."""
        silent_s = asyncio.get_running_loop().time() - self._answered_s
        return silent_s <= HEARD_INTERVALS * self._times.heartbeat_interval_s

    @property
    def waiting_for(self) -> str | None:
        """What this broker waits for until clients can use it; None while they can."""
        if self.state is BrokerState.RUNNING:
            if not self._is_fenced:
                return None
            return "the controller to unfence this broker, once it has replayed its own registration"
        return _WAITING_FOR[self.state]

    async def serve(self) -> None:
        """This broker is ready: returns once the controller lets it lead and join ISRs."""
        await self._until_fenced(BrokerState.RUNNING, is_fenced=False)

    def report(self) -> None:
        """More directories are offline: send the next heartbeat now. Without any that is left the broker should end:
        nothing that it is given can be stored, and no broker would take over what is not assigned to a directory yet.
        """
        identity = self._identity
        if identity is not None and set(identity.directory_ids) <= set(self.offline_directories()):
            self.fail("none of its log directories is usable (log.dirs); repair or replace the disks")
        self._wake.set()

    def report_soon(self) -> None:
        """Something that the controller's elections look at has changed: send a heartbeat within `REPORT_DELAY_S`."""
        if self._soon is None:
            self._soon = asyncio.get_running_loop().call_later(REPORT_DELAY_S, self._report_now)

    def _report_now(self) -> None:
        self._soon = None
        self._wake.set()

    def controller_changed(self) -> None:
        """The active controller has no heartbeat of this broker yet: send the next heartbeat now."""
        self._wake.set()

    def connection_lost(self) -> None:
        """The connection of the heartbeats has ended: send the next heartbeat now, if the last one was answered."""
        if self._is_connected:
            self._is_connected = False
            self._wake.set()

    def fail(self, reason: str) -> None:
        """Report that this broker cannot continue and must end."""
        if not self.failed.done():
            self.failed.set_result(reason)

    async def leave(self) -> None:
        """Move what it leads to others, as far as time allows (controlled shutdown). Returns at once where the
        heartbeats, which ask for it, have ended. Idempotent.
        """
        if self._beating is None or self._beating.done():
            return
        self._set_state(BrokerState.LEAVING)
        _, late = await asyncio.wait([self._beating], timeout=self._times.leaving_s)
        if late:
            _log.warning(
                "not all leaderships moved within %g s (controlled.shutdown.timeout.ms): stopping anyway",
                self._times.leaving_s,
            )

    async def close(self) -> None:
        if self._soon is not None:
            self._soon.cancel()
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.gather(self._beating, return_exceptions=True)

    def _set_state(self, state: BrokerState) -> None:
        _log.info("broker is %s", state.value)
        self.state = state
        self._wake.set()

    async def _until_fenced(self, state: BrokerState, *, is_fenced: bool) -> bool:
        """Whether it came to that, before another state was wanted."""
        self._set_state(state)
        async with self._changed:
            await self._changed.wait_for(lambda: self._is_fenced is is_fenced or self.state is not state)
        return self.state is state

    # Registration.

    async def _register(self, within_s: float | None = None) -> None:
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + (self._times.registration_s if within_s is None else within_s)
        request = self._registration()
        reported: ErrorCode | None = None
        while True:
            sent_s = loop.time()
            left_s = deadline_s - sent_s
            response = await self._channel.send(request, timeout_s=max(left_s, 0.001))
            code = response.error_code
            if code is ErrorCode.none:
                break
            if code not in _PASSING or loop.time() >= deadline_s:
                raise KafkaError(code, _explanation(code, request))
            if code is not reported:
                reported = code
                why = _ALIVE if code is ErrorCode.duplicate_broker_registration else "another controller is active"
                self.obstacle = why
                _log.warning("not registered yet, trying again for %.0f s: %s", left_s, why)
            await asyncio.sleep(REGISTRATION_RETRY_S * self._rng.uniform(0.5, 1.0))
        self.obstacle = ""
        self._answered_s = sent_s
        self.broker_epoch = response.broker_epoch
        self._is_fenced = True
        _log.info("registered with broker epoch %d", self.broker_epoch)
        if self.state is BrokerState.UNREGISTERED:
            self._set_state(BrokerState.STARTING)

    def _registration(self) -> BrokerRegistrationRequest:
        identity = self._identity
        assert identity is not None, self.state
        return BrokerRegistrationRequest(
            broker_id=identity.broker_id,
            cluster_id=identity.cluster_id,
            incarnation_id=self.incarnation_id,
            listeners=tuple(
                BrokerRegistrationRequestListener(
                    name=item.listener, host=item.host, port=item.port, security_protocol=int(item.security_protocol)
                )
                for item in identity.end_points
            ),
            features=tuple(
                BrokerRegistrationRequestFeature(name=name, min_supported_version=low, max_supported_version=high)
                for name, low, high in identity.features
            ),
            rack=identity.rack,
            log_dirs=identity.directory_ids,
            previous_broker_epoch=self._previous_epoch,
        )

    # Heartbeats.

    def _beating_ended(self, task: asyncio.Task[None]) -> None:
        """The supervisor of the heartbeats: a broker without them is fenced for good, and must end."""
        if task.cancelled() or (error := task.exception()) is None:
            return
        _log.error("internal error in the heartbeats: the broker stops", exc_info=error)
        self.fail(f"internal error in its heartbeats: {error!r}")

    async def _beat(self) -> None:
        while self.state is not BrokerState.LEFT:
            self._wake.clear()
            try:
                await self._beat_once()
            except ControllerUnavailableError as error:
                _log.warning("heartbeat failed, trying again: %s", error)
            except KafkaError as error:
                _log.error("the controller rejected the heartbeat: %s", error)
            pause = asyncio.get_running_loop().call_later(self._pause_s(), self._wake.set)
            try:
                await self._wake.wait()
            finally:
                pause.cancel()

    def _pause_s(self) -> float:
        """While something is awaited it is asked for more often: it takes as long as the log takes to replay."""
        is_waiting = self._is_fenced is (self.state is BrokerState.RUNNING) or self.state is BrokerState.LEAVING
        return LEAVING_INTERVAL_S if is_waiting else self._times.heartbeat_interval_s

    async def _beat_once(self) -> None:
        assert self._identity is not None, self.state
        state = self.state
        request = BrokerHeartbeatRequest(
            broker_id=self._identity.broker_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=self._replayed_offset(),
            want_fence=state is BrokerState.STARTING,
            want_shut_down=state is BrokerState.LEAVING,
            offline_log_dirs=tuple(self.offline_directories()),
            thin_replicas=tuple(self.thin_replicas()),
        )
        # From here, and not from the answer: the controller's session begins when the heartbeat reaches it.
        sent_s = asyncio.get_running_loop().time()
        response = await self._channel.send(request, timeout_s=self._times.request_timeout_s)
        self._is_connected = True
        code = response.error_code
        if code in _LOST_REGISTRATION:
            # The same process registers again: its logs are as they were, only the broker epoch is new.
            _log.warning("the controller no longer has this registration (%s): registering again", code.name)
            await self._register()
        elif code is not ErrorCode.none:
            raise KafkaError(code, f"heartbeat of broker {self._identity.broker_id}")
        else:
            self._answered_s = sent_s
            await self._note(response)

    async def _note(self, response: BrokerHeartbeatResponse) -> None:
        async with self._changed:
            self._is_fenced = response.is_fenced
            if self.state is BrokerState.LEAVING and response.should_shut_down:
                self.state = BrokerState.LEFT
                self._wake.set()
            self._changed.notify_all()


def _explanation(code: ErrorCode, request: BrokerRegistrationRequest) -> str:
    broker = f"broker {request.broker_id}"
    if code is ErrorCode.duplicate_broker_registration:
        return f"{broker} is registered by another process that is alive: two brokers must not have one node.id"
    if code is ErrorCode.inconsistent_cluster_id:
        return f"{broker} belongs to cluster {request.cluster_id}, the controller to another: check the log directories"
    if code is ErrorCode.unsupported_version:
        return f"{broker} does not support a feature level that the cluster has finalized: use a newer release"
    return f"{broker} was rejected by the controller"
