"""Whether a broker that is fenced deserved it. Exact: by what the controller that fenced it had heard of it.

| a broker is fenced, or another incarnation is registered in its place; and     | verdict                            |
|--------------------------------------------------------------------------------|------------------------------------|
| it had asked for that, or was leaving                                          | right                              |
| nothing was heard of it for a session timeout, by that controller, since it    | right: the session is over         |
| began to lead                                                                  |                                    |
| the process that had registered listens                                        | violation of "live brokers serve"  |
| it has ended, and the controller leads for less than a session timeout and has | violation of "hears most"          |
| not heard more than half of the brokers, without those that died and were      |                                    |
| fenced so (or, where it is replaced, has not heard that one)                   |                                    |
| it has ended; with those that died and were fenced (not replaced) so within    | violation of "only a minority"     |
| the last session timeout that is half of the brokers, or more                  |                                    |
| it has ended, else                                                             | right: fast failover               |

A batch is known here when it is committed, which may be long after it was decided: times are compared so that this
makes the judge milder, never wrong. Of two that died, the controller decided on the first after it had died.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from ....broker.cluster import BrokerRegistration, ClusterImage
from ....light_dataclass import dataclass
from ....quorum import CommittedBatch
from .events import ControllerElected, MetadataChanged, Observed, ProcessEnded
from .heartbeats import HeartbeatJudge
from .partition import InvariantViolationError

SLACK_S: Final = 0.01
"""Controllers count in whole milliseconds."""


@dataclass(frozen=True, slots=True)
class _Fast:
    epoch: int
    ended_s: float


class FencingJudge:
    """`hosts` are brokers' hosts by id; `up_since_s` says since when a host's broker runs, None if none
    does, or if it no longer listens.
    """

    def __init__(
        self,
        hosts: Mapping[int, str],
        heartbeats: HeartbeatJudge,
        *,
        session_s: float,
        now_s: Callable[[], float],
        up_since_s: Callable[[str], float | None],
    ) -> None:
        self._hosts = hosts
        self._heartbeats = heartbeats
        self._session_s = session_s
        self._now_s = now_s
        self._up_since_s = up_since_s
        self._leads_since_s: dict[int, float] = {}
        """When controllers began to lead, by their epoch."""
        self._registered_s: dict[tuple[int, int], float] = {}
        """When a registration was made, by broker and its epoch."""
        self._serves_since: dict[int, int] = {}
        """At which offset a broker was unfenced."""
        self._ended_s: dict[int, float] = {}
        """When a broker's process ended last."""
        self._fast: dict[int, _Fast] = {}

    def on(self, event: Observed) -> None:
        match event:
            case MetadataChanged(batch, _, before, after):
                self._changed(batch, before, after)
            case ControllerElected(epoch):
                self._leads(epoch)
            case ProcessEnded(host):
                self._ended(host)

    def _leads(self, epoch: int) -> None:
        """A controller begins to lead."""
        self._leads_since_s.setdefault(epoch, self._now_s())

    def _ended(self, host: str) -> None:
        for broker_id, name in self._hosts.items():
            if name == host:
                self._ended_s[broker_id] = self._now_s()

    def _changed(self, batch: CommittedBatch, before: ClusterImage, after: ClusterImage) -> None:
        """InvariantViolationError."""
        for broker_id, now in after.brokers.items():
            then = before.brokers.get(broker_id)
            if then is None or then.epoch != now.epoch:
                self._registered_s[broker_id, now.epoch] = self._now_s()
            if then is None or then.fenced:
                if not now.fenced:
                    self._serves_since[broker_id] = batch.base_offset
            elif now.fenced and not then.is_leaving:
                self._judge(batch, before, then, is_replaced=then.epoch != now.epoch)

    def _judge(
        self, batch: CommittedBatch, before: ClusterImage, broker: BrokerRegistration, *, is_replaced: bool
    ) -> None:
        since = self._serves_since.get(broker.id, -1)
        known = self._heartbeats.known(batch.epoch, broker.id, broker.epoch, batch.base_offset)
        if any(heard.wants_to_go and heard.next_offset > since for heard in known):
            return
        now_s, leads_since_s = self._now_s(), self._leads_since_s.get(batch.epoch, 0.0)
        heard_s = max([leads_since_s, *(heard.at_s for heard in known)])
        if now_s >= heard_s + self._session_s - SLACK_S:
            return
        detail = f"broker {broker.id} is fenced after {now_s - heard_s:.3f} s"
        if self._is_up(broker):
            raise InvariantViolationError("live brokers serve", f"{detail}, and runs")
        if now_s < leads_since_s + self._session_s - SLACK_S:
            since_text = f"the controller leads for {now_s - leads_since_s:.3f} s"
            self._check_heard(batch, before, broker.id, f"{detail}; {since_text}", is_replaced=is_replaced)
        if not is_replaced:
            self._check_minority(batch.epoch, before, broker.id, detail)

    def _is_up(self, broker: BrokerRegistration) -> bool:
        """Whether the process that has registered so runs."""
        up_since_s = self._up_since_s(self._hosts[broker.id])
        return up_since_s is not None and up_since_s <= self._registered_s[broker.id, broker.epoch]

    def _check_heard(
        self, batch: CommittedBatch, before: ClusterImage, broker_id: int, detail: str, *, is_replaced: bool
    ) -> None:
        """Check that a new controller has heard enough brokers."""
        recent, live = self._recent(batch.epoch, broker_id), _live(before)
        witnesses = {broker_id} if is_replaced else live - recent - {broker_id}
        heard = {other for other in witnesses if self._heartbeats.has_heard(batch.epoch, other, batch.base_offset)}
        is_enough = heard == witnesses if is_replaced else 2 * len(heard) > len(live | recent)
        if not is_enough:
            raise InvariantViolationError("hears most", f"{detail}, and has heard {sorted(heard)} of {sorted(live)}")

    def _check_minority(self, epoch: int, before: ClusterImage, broker_id: int, detail: str) -> None:
        recent, live = self._recent(epoch, broker_id), _live(before)
        if 2 * len(recent | {broker_id}) >= len(live | recent | {broker_id}):
            of_whom = f"{sorted(recent | {broker_id})} of {sorted(live | recent)} within a session timeout"
            raise InvariantViolationError("only a minority", f"{detail}: {of_whom}")
        self._fast[broker_id] = _Fast(epoch, self._ended_s.get(broker_id, 0.0))

    def _recent(self, epoch: int, but_for: int) -> set[int]:
        """The brokers that died and were fenced by this controller within the last session timeout."""
        since_s = self._now_s() - self._session_s + SLACK_S
        recent = {other for other, fast in self._fast.items() if fast.epoch == epoch and fast.ended_s > since_s}
        return recent - {but_for}


def _live(image: ClusterImage) -> set[int]:
    return {broker.id for broker in image.brokers.values() if not broker.fenced}
