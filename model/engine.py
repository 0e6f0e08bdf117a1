"""The engine: replicas that are built, as flows that share resources, from event to event.

    wave begins                 its brokers start (a replacement's), or are given their orders, and set replicas up
    broker is set up            all its replicas of the wave begin to fetch, together
    replica has caught up       it leaves its connection, and from now on needs its produce rate like any follower;
                                it is in the ISR after the ISR expansion delay
    follower has caught up      the same, of one that lagged before any move, and fetches from the start on
    throttle's burst is over    the throttle holds from now on, until it has rested
    last replica in the ISR     the next wave begins

Between two events every rate is constant: a connection's (`connections`) is max-min fair, a replica gets its even part,
and comes nearer to the log end by that less its produce rate. So the engine jumps from event to event. Replicas that
catch up within `resolution` of the time since their wave began are dealt with at once, each with its own time; 0 is
exact and slower.

A replica that can never join is marked with its obstacle; the waves after it never begin.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from .arrays import NO_BROKER, Bools, ClusterArrays, Floats, Ints, sums
from .bootstraps import bootstraps_of
from .calibration import Calibration
from .connections import Connections
from .core import Cause
from .failures import fail_over
from .fair_share import use_of
from .inventory_parts import Policy
from .measures import Course, result_of
from .moves import Moves
from .recorder import Recorder
from .replicas import Throttle
from .resources import Kind, resources_of
from .results import ModelResult, Obstacle

RESOLUTION: Final = 1e-3


def simulate(
    arrays: ClusterArrays,
    moves: Moves,
    policy: Policy,
    calibration: Calibration,
    *,
    down_s: float = 0.0,
    resolution: float = RESOLUTION,
) -> ModelResult:
    """All moves, until each has ended or never will.

    Brokers that are replaced (`Moves.is_replacement`) die at the start, and others in sync lead what they led. They
    come back empty after `down_s`.
    """
    replaced = np.unique(moves.target[moves.is_replacement])
    arrays = fail_over(arrays, replaced.tolist())
    run = _Run(arrays, moves, policy, calibration, down_s, resolution)
    for wave in np.unique(moves.wave):
        if not run.wave(np.flatnonzero(moves.wave == wave)):
            break
    return result_of(arrays, moves, policy, run.course.first(len(moves)), run.resources, run.recorder)


class _Run:
    """The state of one simulation, changed in place. Replicas are numbered: M that moves build, then L that lag."""

    def __init__(
        self,
        arrays: ClusterArrays,
        moves: Moves,
        policy: Policy,
        calibration: Calibration,
        down_s: float,
        resolution: float,
    ) -> None:
        self._arrays, self._moves, self._policy, self._calibration = arrays, moves, policy, calibration
        self._down_s, self._resolution = down_s, resolution
        self._now_s = 0.0
        dead = moves.target[moves.is_replacement].tolist()
        lags = arrays.lags.copying(arrays.replicas, arrays.leader, dead)
        self.course = Course.of(len(moves) + len(lags))
        self.resources = resources_of(arrays, calibration)
        self.recorder = Recorder(len(self.resources.capacity), arrays.broker_count)
        self._target = np.concatenate([moves.target, lags.broker])
        self._goes = np.concatenate([moves.source, np.full(len(lags), NO_BROKER, dtype=np.int32)])
        partition = np.concatenate([moves.partition, lags.partition])
        self._produce, self._leader = arrays.produce[partition], arrays.leader[partition]
        source = np.where(self._leader == NO_BROKER, self._target, self._leader)
        self._connections = Connections(arrays, self.resources, calibration, source, self._target, self._produce)
        self._remaining = np.concatenate([np.zeros(len(moves)), lags.bytes])
        self._lagging = np.arange(len(moves), len(moves) + len(lags))
        self.course.first_fetch_s[self._lagging] = 0.0
        self._connections.begin(self._lagging)
        self._is_started = np.zeros(arrays.broker_count, dtype=np.bool_)
        self._foreground = self.resources.foreground.copy()
        self._available = self.resources.left_by(self._foreground)
        is_throttle = np.zeros(len(self._available), dtype=np.bool_)
        is_throttle[Kind.THROTTLE_IN * arrays.broker_count : len(Kind) * arrays.broker_count] = True
        rate = np.where(is_throttle & np.isfinite(self._available), self.resources.capacity, 0.0)
        self._throttle = Throttle(rate, calibration.throttle_burst_bytes, calibration.throttle_rest_s)
        replaced = moves.target[moves.is_replacement]
        if len(replaced):  # a plan's throttle is set when it begins; what holds for a replaced broker held before
            self._throttle.begin_rested(but=self.resources.of(Kind.THROTTLE_IN).start + replaced)
        self._open()

    def _open(self) -> None:
        """A throttle that lets a burst through holds nothing back."""
        self._available[self._throttle.is_open] = np.inf

    def wave(self, members: Ints) -> bool:
        """Run one wave; False if some of it never ends."""
        began_s = self._now_s
        self.course.began_s[members] = began_s
        waiting, fetching = self._set_up(members), self._lagging
        while len(waiting) or self._are_built(fetching).any():
            is_ready = self.course.first_fetch_s[waiting] <= self._now_s
            if is_ready.any():
                self._connections.begin(waiting[is_ready])
                self._throttle.may_rest(self.resources.of(Kind.THROTTLE_IN).start + self._target[waiting[is_ready]])
                fetching = np.concatenate([fetching, waiting[is_ready]])
                waiting = waiting[~is_ready]
            next_ready_s = float(self.course.first_fetch_s[waiting].min(initial=np.inf))
            has_caught_up = self._advance(fetching, next_ready_s, began_s)
            if has_caught_up is None:
                self.course.obstacle[fetching] = Obstacle.OVERTAKEN
                return False
            fetching = fetching[~has_caught_up]
        self._lagging = fetching
        end_s = float(self.course.joined_s[members].max())
        if np.isfinite(end_s):
            self._rest(end_s)
        return bool(np.isfinite(end_s))

    def _are_built(self, replicas: Ints) -> Bools:
        """Which of these moves build; the others only lag."""
        return np.asarray(replicas < len(self._moves))

    def _rest(self, until_s: float) -> None:
        """Advance to the end of a wave, whose replicas have all caught up: who lags copies on, and throttles rest."""
        while len(self._lagging) and self._now_s < until_s:
            has_caught_up = self._advance(self._lagging, until_s, self._now_s)
            assert has_caught_up is not None, "an end is an event"
            self._lagging = self._lagging[~has_caught_up]
        self._throttle.pass_on(np.zeros(len(self._available)), until_s - self._now_s)
        self._open()
        self._now_s = until_s

    def _set_up(self, members: Ints) -> Ints:
        """When each replica begins to fetch, and with how much to copy; returns those that can join at all."""
        target = self._moves.target[members]
        asks_s = np.full(len(members), self._now_s)
        starts = self._moves.is_replacement[members] & ~self._is_started[target]
        replay_s = self._calibration.replay_partition_s * self._arrays.partition_count
        asks_s[starts] += self._down_s + self._calibration.start_s + replay_s
        is_ordered = ~self._moves.is_replacement[members]
        asks_s[is_ordered] += self._calibration.wave_s
        causes = self.course.cause_s
        causes[members, Cause.WAITING] = self._now_s
        causes[members[is_ordered], Cause.BEGIN] = self._calibration.wave_s
        causes[members[starts], Cause.DOWN] = self._down_s
        causes[members[starts], Cause.START] = self._calibration.start_s
        causes[members[starts], Cause.REPLAY] = replay_s
        self._is_started[target] = True
        found = bootstraps_of(self._arrays, self._moves.partition[members], asks_s, self._policy)
        self.course.obstacle[members] = found.obstacle
        can_join = found.obstacle == Obstacle.NONE
        members, target, asks_s = members[can_join], target[can_join], asks_s[can_join]
        adopts = found.adopts[can_join]
        setup_s, tier_s = (each[target] for each in self._setup_s(members, adopts))
        causes[members, Cause.SETUP], causes[members, Cause.TIER] = setup_s, tier_s
        self.course.first_fetch_s[members] = asks_s + setup_s + tier_s
        self.course.bulk_bytes[members] = found.leader_bytes[can_join]
        self.course.thin_bytes[members] = found.thin_bytes[can_join]
        self.course.tier_bytes[members] = np.where(adopts, self._calibration.aux_bytes, 0.0)
        self.course.tier_gets[members] = np.where(adopts, self._calibration.aux_gets, 0)
        waited_s = self.course.first_fetch_s[members] - asks_s
        self._remaining[members] = self.course.bulk_bytes[members] + self._produce[members] * waited_s
        self.course.catch_up_bytes[members] = self._produce[members] * waited_s
        assert np.isfinite(self._remaining[members]).all(), self._remaining[members]
        return members

    def _setup_s(self, members: Ints, adopts: Bools) -> tuple[Floats, Floats]:
        """Seconds from the first question until all its replicas are set up, for each broker, [B]: those of the broker
        and its leaders, and those of the tier.
        """
        pace, count = self._calibration, self._arrays.broker_count
        target = self._moves.target[members]
        leader = self._arrays.leader[self._moves.partition[members]]
        replicas = np.bincount(target, minlength=count)
        adopting = np.bincount(target[adopts], minlength=count)
        racks = self._arrays.racks
        round_trip_s = np.zeros(count)
        latency_s = self._arrays.link_latency_s
        there_and_back_s = latency_s[racks[leader], racks[target]] + latency_s[racks[target], racks[leader]]
        np.maximum.at(round_trip_s, target, there_and_back_s)
        work_s = (replicas * pace.setup_s + adopting * pace.aux_s) / pace.setup_parallel
        asks_s = np.ceil(replicas / pace.setup_parallel) * pace.setup_round_trips * round_trip_s
        gets_s = np.ceil(adopting / pace.setup_parallel) * pace.aux_gets * self._arrays.tier.latency_ms / 1000
        reads_s = adopting * pace.aux_bytes / self._available[self.resources.tier]
        return work_s + asks_s, np.asarray(gets_s + reads_s + np.where(adopting > 0, pace.retry_s, 0.0))

    def _advance(self, fetching: Ints, next_ready_s: float, began_s: float) -> Bools | None:
        """Advance to the next event. Return which of `fetching` caught up; None if no event remains."""
        connections = self._connections
        rates = connections.rates(self._available)
        use = use_of(connections.uses, connections.weights, rates, len(self._available))
        at = connections.of_replica[fetching]
        nears = rates[at] / connections.fetching[at] - self._produce[fetching]
        with np.errstate(divide="ignore", invalid="ignore"):
            ends_s = self._now_s + np.where(nears > 0, self._remaining[fetching] / nears, np.inf)
        ends_s[self._remaining[fetching] <= 0] = self._now_s
        burst_end_s = self._now_s + self._throttle.left_s(use)
        first_s = float(ends_s.min(initial=np.inf))
        if not np.isfinite(min(first_s, next_ready_s, burst_end_s)):
            return None
        last_s = float(ends_s.max(initial=0.0)) if len(ends_s) else np.inf
        soon_s = min(first_s + self._resolution * (first_s - began_s), last_s) if np.isfinite(first_s) else np.inf
        until_s = min(soon_s, next_ready_s, burst_end_s)
        has_caught_up = ends_s <= until_s
        self._record(rates, use, until_s)
        waits_for = connections.waits_for(rates, use, self._available)[at]
        self.course.cause_s[fetching, waits_for] += np.minimum(ends_s, until_s) - self._now_s
        self._remaining[fetching] -= np.minimum(nears * (until_s - self._now_s), self._remaining[fetching])
        self._throttle.pass_on(use, until_s - self._now_s)
        self._available = self.resources.left_by(self._foreground)
        self._open()
        self._now_s = until_s
        caught_up = fetching[has_caught_up]
        lag_s = np.where(self._is_held_back(use)[at[has_caught_up]], self._calibration.throttle_lag_s, 0.0)
        self._join(caught_up, ends_s[has_caught_up], lag_s)
        return has_caught_up

    def _is_held_back(self, use: Floats) -> Bools:
        """[C], connections that take from a throttle which lets nothing more through."""
        throttles = slice(Kind.THROTTLE_IN * self.resources.brokers, len(Kind) * self.resources.brokers)
        is_full = np.zeros(len(use), dtype=np.bool_)
        is_full[throttles] = use[throttles] >= self._available[throttles] * (1 - 1e-6)
        return np.asarray(is_full[self._connections.uses].any(axis=1))

    def _record(self, rates: Floats, use: Floats, until_s: float) -> None:
        """What a throttle lets through in a burst lasts for a moment: peaks are reported as it holds from then on."""
        connections, brokers = self._connections, self._arrays.broker_count
        capacity = self.resources.capacity
        bursting = self._throttle.is_open & (use > capacity)
        if bursting.any():
            held = np.ones(len(use))
            held[bursting] = capacity[bursting] / use[bursting]
            lasting = rates * held[connections.uses].min(axis=1)
            use = use_of(connections.uses, connections.weights, lasting, len(use))
        into = sums(connections.target, rates, brokers)
        out_of = sums(connections.source, rates, brokers)
        self.recorder.interval(self._now_s, until_s, use, into, out_of)

    def _join(self, replicas: Ints, ends_s: Floats, lag_s: Floats) -> None:
        """From now on they receive what producers write; a source that is removed no longer does."""
        self._connections.end(replicas)
        fetched_s = ends_s - self.course.first_fetch_s[replicas]
        self.course.catch_up_bytes[replicas] += self._produce[replicas] * fetched_s
        self.course.joined_s[replicas] = ends_s + lag_s + self._calibration.isr_expansion_s
        self.course.cause_s[replicas, Cause.THROTTLE] += lag_s
        self.course.cause_s[replicas, Cause.ISR] += self._calibration.isr_expansion_s
        follows, leader, goes = self._target[replicas], self._leader[replicas], self._goes[replicas]
        leaves = (goes != NO_BROKER) & (goes != follows) & (goes != leader)
        self._need(follows, leader, self._produce[replicas])
        self._need(goes[leaves], leader[leaves], -self._produce[replicas][leaves])

    def _need(self, follower: Ints, leader: Ints, rate: Floats) -> None:
        """A follower in sync needs so much more (or less) from its leader."""
        resources = self.resources
        for numbers in resources.path(self._arrays.racks[leader], self._arrays.racks[follower]):
            np.add.at(self._foreground, numbers, rate)
        for kind, brokers, weight in (
            (Kind.NIC_IN, follower, 1.0),
            (Kind.DISK_WRITE, follower, 1.0),
            (Kind.CPU, follower, resources.follower_cpu),
            (Kind.NIC_OUT, leader, 1.0),
            (Kind.CPU, leader, resources.leader_cpu),
        ):
            np.add.at(self._foreground, kind * resources.brokers + brokers, rate * weight)
        self._available = resources.left_by(self._foreground)
        self._open()
