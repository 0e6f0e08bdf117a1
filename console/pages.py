"""What each page shows: asks for the values that it needs, and puts them together for the template and for JSON."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from typing import Final, TypeVar

from ..errors import OperatorError
from ..light_dataclass import dataclass
from ..protocol import OUTSIDE
from .core.replicas import ReplicaBar, replica_bars
from .core.selection import Page, Query, paged, selected
from .core.state import Group, GroupLag, Key, Offsets, Overview, Partition, Prediction, Problem, Topic, topics_of
from .core.verdicts import Verdict, cluster_verdict, replacement_verdict
from .looks import INTERVAL_S, Kept, KeptByKey, Seen
from .port import ClusterReader, Look
from .threads import in_thread

T = TypeVar("T")

PREDICTION_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """A partition with its offsets, its leader's last error in the tier, and the bars of its replicas."""

    partition: Partition
    offsets: Offsets | None
    tier_error: str | None
    bars: tuple[ReplicaBar, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A page's values. Those that the page does not show are None. `hurt` counts partitions without a leader or with a
    replica outside the ISR; `problems` of this page come before the look's.
    """

    overview: Overview
    query: Query = field(default_factory=Query)
    problems: tuple[Problem, ...] = ()
    hurt: int | None = None
    topics: Page[Topic] | None = None
    partitions: Page[PartitionRow] | None = None
    groups: Page[Group] | None = None
    lags: Mapping[str, int | None] | None = None
    group: GroupLag | None = None
    prediction: Prediction | None = None
    verdict: Verdict | None = None
    known: Mapping[str, str] | None = None


class Pages:
    """The pages of one cluster. Errors of the cluster become problems on the page."""

    def __init__(self, reader: ClusterReader, *, interval_s: float = INTERVAL_S) -> None:
        self._reader = reader
        self._look = Kept(reader.look, interval_s=interval_s)
        self._offsets: KeptByKey[tuple[Key, ...], Mapping[Key, Offsets]] = KeptByKey(
            reader.offsets, interval_s=interval_s
        )
        self._totals: KeptByKey[tuple[str, ...], Mapping[str, int | None]] = KeptByKey(
            reader.group_totals, interval_s=interval_s
        )
        self._lags: KeptByKey[str, GroupLag] = KeptByKey(reader.group_lag, interval_s=interval_s)
        self._is_predicting = False
        self._news = asyncio.Event()
        """Replaced when it is set."""

    def expire(self) -> None:
        """Look at the cluster again as soon as a page asks: a connection to a broker has ended."""
        self._look.expire()
        self._news.set()
        self._news = asyncio.Event()

    async def news(self, timeout_s: float) -> None:
        """Return when the cluster has to be looked at again, at the latest after `timeout_s`."""
        if self._look.is_expired:  # since the look that the caller has
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._news.wait()

    async def close(self) -> None:
        for kept in (self._look, self._offsets, self._totals, self._lags):
            await kept.close()

    async def overview(self) -> View:
        """Brokers, the quorum, reassignments."""
        view, _ = await self._begin()
        hurt, topics = await in_thread(_counted, view.overview.partitions)
        return replace(view, hurt=hurt, topics=paged(topics, 1))

    async def topics(self, query: Query) -> View:
        view, _ = await self._begin(query)
        text = query.text.casefold()
        rows = await in_thread(topics_of, view.overview.partitions)
        return replace(view, topics=paged([each for each in rows if text in each.name.casefold()], query.page))

    async def partitions(self, query: Query) -> View:
        """One page of partitions; only theirs are the offsets that are asked for."""
        view, look = await self._begin(query)
        found = paged(await in_thread(selected, look.overview, look.disks, query), query.page)
        seen: Seen[Mapping[Key, Offsets]] = Seen(None)
        if found.rows:
            seen = await self._offsets.get(tuple(part.key for part in found.rows))
        overview = look.overview
        adding, alive = overview.adding, overview.alive
        rows = tuple(
            PartitionRow(
                part,
                offsets := (seen.value or {}).get(part.key),
                _tier_error(part, look),
                replica_bars(part, offsets, look.disks, alive, adding.get(part.key, ()), overview.unreachable),
            )
            for part in found.rows
        )
        page = Page(rows, found.number, found.pages, found.total)
        return replace(view, partitions=page, problems=(*_problem("offsets", seen), *view.problems))

    async def groups(self, query: Query) -> View:
        """One page of groups with their lags."""
        view, look = await self._begin(query)
        text = query.text.casefold()
        found = paged([each for each in look.overview.groups or () if text in each.id.casefold()], query.page)
        seen: Seen[Mapping[str, int | None]] = Seen(None)
        if found.rows:
            seen = await self._totals.get(tuple(group.id for group in found.rows))
        return replace(view, groups=found, lags=seen.value or {}, problems=(*_problem("lags", seen), *view.problems))

    async def group(self, name: str, query: Query) -> View:
        """One group with its partitions."""
        view, _ = await self._begin(query)
        seen = await self._lags.get(name)
        found = seen.value
        if found is not None:
            rows = paged(found.rows, query.page)
            found = replace(found, rows=rows.rows)
            view = replace(view, partitions=Page((), rows.number, rows.pages, rows.total))
        return replace(view, group=found, problems=(*_problem(f"group {name}", seen), *view.problems))

    async def replacement(
        self, broker: int | None, known: Mapping[str, str], assumed: Mapping[str, str] | None = None
    ) -> View:
        """What if this broker is replaced; one prediction at a time. `assumed` stand for figures that are missing."""
        view, _ = await self._begin()
        view = replace(view, known=known, verdict=None)
        if broker is None:
            return view
        if self._is_predicting:
            busy = Problem("prediction", "another one is being calculated: ask again when it is done")
            return replace(view, problems=(busy, *view.problems))
        self._is_predicting = True
        try:
            async with asyncio.timeout(PREDICTION_S):
                found = await self._predicted(broker, known, assumed or {})
                return replace(view, prediction=found, verdict=replacement_verdict(found))
        except TimeoutError:
            problem = Problem("prediction", f"it was not there after {PREDICTION_S:g} s")
        except (*OUTSIDE, OperatorError) as error:
            problem = Problem("prediction", str(error))
        finally:
            self._is_predicting = False
        return replace(view, problems=(problem, *view.problems))

    async def _predicted(self, broker: int, known: Mapping[str, str], assumed: Mapping[str, str]) -> Prediction:
        found = await self._reader.predict(broker, known)
        if not found.missing or not found.missing.keys() <= assumed.keys():
            return found
        used = {key: assumed[key] for key in found.missing}
        return replace(await self._reader.predict(broker, {**used, **known}), assumed=used)

    async def _begin(self, query: Query | None = None) -> tuple[View, Look]:
        seen = await self._look.get()
        look = Look(Overview(taken_at_s=0)) if seen.value is None else seen.value
        problems = (*_problem("cluster", seen), *look.overview.problems)
        verdict = await in_thread(cluster_verdict, look.overview, look.overview.partitions, look.disks)
        return View(overview=look.overview, query=query or Query(), problems=problems, verdict=verdict), look


def _counted(partitions: Sequence[Partition]) -> tuple[int, list[Topic]]:
    """Return how many partitions are hurt, and the topics."""
    return sum(part.is_hurt for part in partitions), topics_of(partitions)


def _tier_error(part: Partition, look: Look) -> str | None:
    held = look.disks.get(part.leader, {}).get(part.key)
    return None if held is None else held.tier_error


def _problem(what: str, seen: Seen[T]) -> tuple[Problem, ...]:
    return () if seen.error is None else (Problem(what, seen.error),)
