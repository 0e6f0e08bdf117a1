"""Whether closed segments go to the tier in time: a promise of settings, plus what faults have taken.

A leader's tier lags while a closed segment below the last stable offset is in no finished remote segment. It is to get
on: the end of what is in the tier rises, again and again, until nothing is left.

| clock                                  | begins                                                                     |
|----------------------------------------|----------------------------------------------------------------------------|
| of the lag                             | when it begins, when the tier's end rises, when another broker leads, or   |
|                                        | another process                                                            |
| of the quiet                           | when the last fault is over; when a broker is fenced or leaves; when the   |
|                                        | remote log metadata's partition changes                                    |

| invariant      | violated when                                                                                      |
|----------------|----------------------------------------------------------------------------------------------------|
| tiered in time | it was quiet for `PROMISED_S` and for `BACKOFF_SHARE` of the time that the lag had lasted before    |

A copy that fails is tried again after a time that doubles, so after faults it takes as long as they have lasted, plus
jitter. `PROMISED_S` is more than `remote.log.manager.task.interval.ms`, the first back-off and the copy of a segment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from ...broker.cluster import ClusterImage, PartitionRegistration
from ...light_dataclass import dataclass
from ...protocol import REMOTE_LOG_METADATA_TOPIC, TopicIdPartition, TopicPartition
from .core.events import MomentPassed, Observed
from .core.partition import InvariantViolationError

PROMISED_S: Final = 10.0
BACKOFF_SHARE: Final = 1.25
METADATA: Final = TopicPartition(REMOTE_LOG_METADATA_TOPIC, 0)
LOOK_EVERY: Final = 2
"""Moments: a look at all ledgers takes time."""


@dataclass(frozen=True, slots=True)
class Lag:
    """A partition whose tier ends at `tiered_end`, below `closed_end`; `leader` is a broker's id, epoch and process."""

    partition: TopicIdPartition
    leader: tuple[int, int, int]
    tiered_end: int
    closed_end: int


@dataclass(slots=True)
class _Clock:
    lag: Lag
    since_s: float


class TieringJudge:
    """`lags` returns the partitions that lag now and may get on, `is_troubled` whether a fault lasts."""

    def __init__(
        self,
        lags: Callable[[], Iterable[Lag]],
        is_troubled: Callable[[], bool],
        image: Callable[[], ClusterImage],
        now_s: Callable[[], float],
    ) -> None:
        self._lags = lags
        self._is_troubled = is_troubled
        self._image = image
        self._now_s = now_s
        self._moments = 0
        self._quiet_s = 0.0
        self._metadata: PartitionRegistration | None = None
        self._clocks: dict[TopicIdPartition, _Clock] = {}

    def on(self, event: Observed) -> None:
        if not isinstance(event, MomentPassed):
            return
        if not self._is_quiet():
            self._quiet_s = self._now_s()
        self._moments += 1
        if self._moments % LOOK_EVERY == 0:
            self._look()

    def _is_quiet(self) -> bool:
        image = self._image()
        before, self._metadata = self._metadata, image.partition(METADATA)
        is_whole = not any(broker.fenced or broker.is_leaving for broker in image.brokers.values())
        return is_whole and before == self._metadata and not self._is_troubled()

    def _look(self) -> None:
        """InvariantViolationError."""
        clocks, self._clocks = self._clocks, {}
        for lag in self._lags():
            clock = clocks.get(lag.partition)
            if clock is None or clock.lag.leader != lag.leader or clock.lag.tiered_end < lag.tiered_end:
                clock = _Clock(lag, self._now_s())
            self._clocks[lag.partition] = clock
            self._check(lag, clock.since_s)

    def _check(self, lag: Lag, since_s: float) -> None:
        """InvariantViolationError."""
        quiet_s = self._now_s() - max(since_s, self._quiet_s)
        troubled_s = max(0.0, self._quiet_s - since_s)
        if quiet_s > PROMISED_S + BACKOFF_SHARE * troubled_s:
            raise InvariantViolationError(
                "tiered in time",
                f"{lag.partition.topic_partition}: its tier ends at {lag.tiered_end} since {since_s:.3f} s, closed "
                f"segments at {lag.closed_end}; {lag.leader[0]} leads epoch {lag.leader[1]} all the time, and nothing "
                f"was in its way for {quiet_s:.3f} s, nor before for more than {troubled_s:.3f} s",
            )
