"""Fills thin replicas' local logs from the tier in the background, until they have warmed.

    what a round finds of a replica               done
    --------------------------------------------  ---------------------------------------------------------------------
    it is thin, and something is missing          the next segment, newest first, is fetched, checked and put in front
    nothing that local retention keeps is missing it counts as full
    the disk has no room for the segment          reported, and tried again as below: produce comes first
    what is missing cannot be fetched safely      nothing: it stays thin (`rlm.core.warming`)
    it has warmed (`thin_replicas`)               nothing more
    the tier, the disk or the log refuses, or an  reported; tried again after a pause that grows, up to a minute
      internal error
    what the tier has is damaged                  the same, up to an hour: each try fetches a whole segment

One segment at a time, of each replica in turn, at the rate of `thin.replica.warmer.max.bytes.per.second`. Both keys of
the warmer are dynamic. What is missing is decided by `rlm.core.warming`, how it comes in is `log.replica.warming`.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping
from dataclasses import field
from functools import partial
from typing import Final

from ...light_dataclass import dataclass
from ...log.core import CorruptFileError
from ...log.replica import SegmentToWarm
from ...protocol import OUTSIDE, CorruptRecordError, ErrorCode, KafkaError, TopicPartition
from ...remote import Backoff, IndexType, RemoteStorageCorruptError, fetch_transaction_index
from ...rlm import LimitedReads, Missing, RateLimit, RemoteLogManager, ThinView, TierPolicy, ToWarm, to_warm
from .partition import Partition
from .thin_replicas import ThinReplicas

ROUND_S: Final = 1.0
RETRY_MIN_MS: Final = 1_000
RETRY_MAX_MS: Final = 60_000
DAMAGED_RETRY_MIN_MS: Final = 60_000
DAMAGED_RETRY_MAX_MS: Final = 3_600_000
JITTER: Final = 0.2

_DAMAGE: Final = (CorruptRecordError, CorruptFileError, RemoteStorageCorruptError)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WarmerSettings:
    """`thin.replica.warmer.enable` and `.max.bytes.per.second`."""

    is_enabled: bool
    bytes_per_second: int


@dataclass(frozen=True, slots=True)
class WarmingProgress:
    """One replica's bytes that came from the tier, that are still to come, and that came per second so far."""

    bytes_done: int
    bytes_left: int
    bytes_per_second: int


@dataclass(slots=True)
class _Warming:
    began_s: float
    backoff: Backoff
    damaged_backoff: Backoff
    bytes_done: int = 0
    bytes_left: int = 0
    not_before_s: float = 0.0
    said: str = field(default="")


class Warmer:
    """`run` is its life. `now_ms` is the time of day."""

    def __init__(
        self,
        thin: ThinReplicas,
        tier: RemoteLogManager,
        settings: Callable[[], WarmerSettings],
        rng: random.Random,
        now_ms: Callable[[], int],
    ) -> None:
        self._thin = thin
        self._tier = tier
        self._settings = settings
        self._rng = rng
        self._now_ms = now_ms
        self._limit = RateLimit(lambda: settings().bytes_per_second)
        self._warming: dict[TopicPartition, _Warming] = {}

    @property
    def progress(self) -> Mapping[TopicPartition, WarmingProgress]:
        """The progress of the replicas that are being warmed."""
        now_s = asyncio.get_running_loop().time()
        return {
            name: WarmingProgress(
                each.bytes_done, each.bytes_left, int(each.bytes_done / max(now_s - each.began_s, 0.001))
            )
            for name, each in self._warming.items()
        }

    async def run(self) -> None:
        while True:
            await asyncio.sleep(ROUND_S)
            while await self.run_round():
                pass

    async def run_round(self) -> int:
        """One segment of each thin replica; how many came."""
        if not self._settings().is_enabled:
            self._warming.clear()
            return 0
        thin = {partition.partition.topic_partition: partition for partition in self._thin.partitions()}
        for name in self._warming.keys() - thin.keys():
            _log.info("%s has warmed: %d bytes from the tier", name, self._warming.pop(name).bytes_done)
        return sum([await self._warm(name, partition) for name, partition in thin.items()])

    async def _warm(self, name: TopicPartition, partition: Partition) -> bool:
        now_s = asyncio.get_running_loop().time()
        if name not in self._warming:
            self._warming[name] = _Warming(
                now_s,
                Backoff(RETRY_MIN_MS, RETRY_MAX_MS, JITTER, self._rng),
                Backoff(DAMAGED_RETRY_MIN_MS, DAMAGED_RETRY_MAX_MS, JITTER, self._rng),
            )
        warming = self._warming[name]
        if now_s < warming.not_before_s:
            return False
        backoff = warming.backoff
        try:
            return await self._warm_next(partition, warming)
        except OUTSIDE as error:
            if str(error) != warming.said:
                _log.warning("%s could not be warmed, trying again: %s", name, error)
            warming.said = str(error)
            if isinstance(error, _DAMAGE):
                backoff = warming.damaged_backoff
        except Exception:  # noqa: BLE001 - the supervisor of this replica's warming
            _log.exception("internal error: %s could not be warmed, trying again", name)
        warming.not_before_s = now_s + backoff.next_delay_ms() / 1000
        return False

    async def _warm_next(self, partition: Partition, warming: _Warming) -> bool:
        missing = self._missing(partition)
        if missing is None:
            return False
        segments = missing.segments
        if not segments:
            if missing.is_all:
                self._thin.warmed(partition, is_full=True)
            return False
        wanted = sum(each.size_bytes for each in segments)
        warming.bytes_left = min(wanted, max(0, self._thin.limits.bytes_min - partition.log.state.segments.size_bytes))
        keeper, taken = partition.log.state.keeper, segments[0].segment.segment_size_in_bytes
        if not keeper.has_room_for(taken):
            raise KafkaError(
                ErrorCode.kafka_storage_error,
                f"the disk of its log directory has no room for the {taken} bytes of {segments[0].segment.segment_id}"
                " (log.dir.free.bytes.min)",
            )
        with keeper.writing(taken):
            size_bytes = await partition.log.prepend(await self._fetched(segments[0]))
        self._thin.warmed(partition, is_full=missing.is_all and len(segments) == 1)
        warming.bytes_done += size_bytes
        warming.bytes_left = max(0, warming.bytes_left - size_bytes)
        warming.backoff.reset()
        warming.damaged_backoff.reset()
        warming.said = ""
        return True

    def _missing(self, partition: Partition) -> Missing | None:
        """None while the remote log metadata have not been read."""
        log = partition.log
        ledger = self._tier.ledger(partition.partition)
        if ledger is None:
            return None
        view = ThinView(
            epochs=log.state.epochs,
            log_start_offset=log.state.log_start_offset,
            local_log_start_offset=log.state.offsets.local_log_start_offset,
            log_end_offset=log.state.log_end_offset,
            local_bytes=log.state.segments.size_bytes,
            policy=TierPolicy.of(partition.partition.topic, log.state.config),
        )
        return to_warm(ledger, view, self._now_ms())

    async def _fetched(self, wanted: ToWarm) -> SegmentToWarm:
        """The small files; the log itself is read piece by piece while it is written."""
        segment, storage = wanted.segment, LimitedReads(self._tier.storage, self._limit)
        producers = None
        if wanted.before is not None:
            producers = await storage.fetch_index(wanted.before, IndexType.PRODUCER_SNAPSHOT)
        return SegmentToWarm(
            base_offset=wanted.start_offset,
            size_bytes=segment.segment_size_in_bytes,
            read=partial(storage.fetch_log_segment, segment),
            transactions=await fetch_transaction_index(segment, storage),
            producers=producers,
            begins_below=wanted.start_offset > segment.start_offset,
        )
