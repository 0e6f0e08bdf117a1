"""Whether a broker that is fenced deserved it: a live one never is by a mere disconnect, or before its session is over.

| a broker is fenced, and                                                    | verdict                             |
|----------------------------------------------------------------------------|-------------------------------------|
| its process is down, leaves, or began after it was last heard of           | right                               |
| a fault has kept it, or the controllers, from talking for nearly its whole | right: the session is over          |
| session                                                                    |                                     |
| else                                                                       | violation of "live brokers serve"   |

Nearly: less the interval of its heartbeats, for the last one may have been sent so long before the fault. A fault is
taken to last `GRACE_S` longer than it does: requests that nobody answers any more have to time out first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from ..broker.cluster_view import ClusterImage
from .invariants import InvariantViolationError
from .schedule import STORE_KINDS, Fault, FaultKind

GRACE_S = 6.0
SLACK_S = 0.1
HARMLESS = STORE_KINDS | {FaultKind.MOVE_LEADER}


class FenceJudge:
    """`brokers` are ids by host; `up_since_s` says since when a host's process runs, None if none does."""

    def __init__(
        self,
        brokers: Mapping[str, int],
        controllers: Collection[str],
        *,
        session_s: float,
        heartbeat_interval_s: float,
        now_s: Callable[[], float],
        up_since_s: Callable[[str], float | None],
    ) -> None:
        self._brokers = brokers
        self._controllers = frozenset(controllers)
        self._patience_s = session_s - heartbeat_interval_s - SLACK_S
        self._now_s = now_s
        self._up_since_s = up_since_s
        self._disturbed: dict[str, tuple[float, float]] = {}
        """By host: since when, and until when as far as is known."""

    def faults_are(self, active: Sequence[Fault]) -> None:
        """These last now: one has begun or ended."""
        now_s = self._now_s()
        for host in self._brokers:
            since_s, until_s = self._disturbed.get(host, (now_s, -1.0))
            is_disturbed = any(self._touches(fault, host) for fault in active)
            if is_disturbed or until_s == float("inf"):
                begins_s = since_s if now_s <= until_s else now_s
                self._disturbed[host] = begins_s, float("inf") if is_disturbed else now_s + GRACE_S

    def changed(self, before: ClusterImage, after: ClusterImage) -> None:
        """InvariantViolationError."""
        for host, broker_id in self._brokers.items():
            then, now = before.brokers.get(broker_id), after.brokers.get(broker_id)
            if then is None or now is None or then.epoch != now.epoch or then.is_leaving or now.is_leaving:
                continue
            if now.fenced and not then.fenced:
                self._judge(host, broker_id)

    def _judge(self, host: str, broker_id: int) -> None:
        now_s, up_since_s = self._now_s(), self._up_since_s(host)
        if up_since_s is None or now_s - up_since_s < self._patience_s + GRACE_S:
            return
        since_s, until_s = self._disturbed.get(host, (now_s, -1.0))
        if now_s > until_s or now_s - since_s < self._patience_s:
            kept_s = now_s - since_s if now_s <= until_s else 0.0
            detail = (
                f"broker {broker_id} is fenced, runs for {now_s - up_since_s:.3f} s, was cut off for {kept_s:.3f} s"
            )
            raise InvariantViolationError("live brokers serve", detail)

    def _touches(self, fault: Fault, host: str) -> bool:
        if fault.kind in HARMLESS:
            return False
        return not fault.targets or host in fault.targets or not self._controllers.isdisjoint(fault.targets)
