"""Replicas handed from brokers that give to brokers that take, so many each.

What a giver gives is chosen once for all takers (choice.py). Takers then take in turns: in a turn at most one replica
of a partition is at hand, so that no broker is offered a second one before it is known where the first went. What is
left of a taker's number when all of that has been offered comes from the givers' spare choice.
"""

from __future__ import annotations

import numpy as np

from ..light_dataclass import dataclass
from ..model import Floats, Ints
from .choice import chosen
from .placement import Candidates, Indexes, Placement, order_by_broker, spread


@dataclass(frozen=True, eq=False, slots=True)
class _Offers:
    """Replicas, those of one giver together; `turn` is when each is at hand, -1 - turn for spare ones."""

    partitions: Indexes
    slots: Indexes
    source: Ints
    turn: Indexes


def hand_out(placement: Placement, gives: Ints, takes: Ints, bytes_given: Floats) -> None:
    """Move as many as both sides allow; `bytes_given` is what those of each giver should weigh. Both numbers are used
    up.
    """
    amount = int(min(gives.sum(), takes.sum()))
    if amount == 0:
        return
    offers = _offers(placement, gives, bytes_given)
    width = placement.replicas.shape[1]
    regular = max(1, int((offers.turn >= 0).sum()))
    for turn in range(width):
        part = float((offers.turn == turn).sum()) / regular
        _take_turn(placement, offers, turn, gives, takes, np.ceil(takes * min(1.0, part * width / (width - turn))))
    for turn in range(width):
        if takes.any():
            _take_turn(placement, offers, -1 - turn, gives, takes, takes.astype(np.float64))


def _offers(placement: Placement, gives: Ints, bytes_given: Floats) -> _Offers:
    width = placement.replicas.shape[1]
    holders = placement.replicas.ravel()
    places = np.flatnonzero(np.append(gives > 0, False)[holders])
    places = places[order_by_broker(holders[places])]
    partitions = places // width
    cost, weight = placement.cost[partitions], placement.weight[partitions]
    ends = np.cumsum(np.bincount(holders[places], minlength=len(gives)))
    kept, is_spare = [], []
    for broker in np.flatnonzero(gives):
        first, end = int(ends[broker - 1]) if broker else 0, int(ends[broker])
        count = min(int(gives[broker]), end - first)
        mine = slice(first, end)
        found = first + chosen(cost[mine], weight[mine], count, float(bytes_given[broker]))
        kept.append(found)
        is_spare.append(np.arange(len(found)) >= count)
    at = np.concatenate(kept)
    partitions, slots = partitions[at], places[at] % width
    turn = (slots + partitions) % width
    return _Offers(partitions, slots, holders[places[at]], np.where(np.concatenate(is_spare), -1 - turn, turn))


def _take_turn(placement: Placement, offers: _Offers, turn: int, gives: Ints, takes: Ints, wanted: Floats) -> None:
    """Every taker takes up to `wanted` of what is at hand in this turn, large and small alike."""
    at_hand = np.flatnonzero(offers.turn == turn)
    if turn >= 0:
        at_hand = at_hand[np.argsort(placement.weight[offers.partitions[at_hand]], kind="stable")]
    sources = offers.source[at_hand]
    candidates = Candidates(placement, offers.partitions[at_hand], offers.slots[at_hand])
    is_open = np.ones(len(at_hand), dtype=np.bool_)
    wanted = np.minimum(wanted, takes)
    for broker in np.argsort(-wanted, kind="stable"):
        count = int(wanted[broker])
        if count <= 0:
            break
        found = np.flatnonzero(is_open & candidates.may_go_to(int(broker)))
        if turn >= 0:
            found = found[spread(len(found), count)]
        else:
            found = _even_part(found, sources, gives, count, count / max(1.0, float(wanted.sum())))
        found = found[: placement.fitting(candidates.partitions[found], int(broker))]
        placement.move(candidates.partitions[found], candidates.slots[found], int(broker))
        is_open[found] = False
        gives -= np.bincount(sources[found], minlength=len(gives)).astype(gives.dtype)
        takes[broker] -= len(found)
        wanted[broker] = 0


def _even_part(found: Indexes, sources: Ints, gives: Ints, count: int, part: float) -> Indexes:
    """`count` of these, of each giver about its `part`; more where others have not so many."""
    ranks = _ranks(sources[found])
    is_within = ranks < np.ceil(gives * part)[sources[found]]
    if is_within.sum() < count:
        is_within = ranks < gives[sources[found]]
    found, ranks = found[is_within], ranks[is_within]
    return np.sort(found[np.argsort(ranks, kind="stable")[:count]])


def _ranks(groups: Ints) -> Indexes:
    """The place of each within its group; equal groups are adjacent."""
    places = np.arange(len(groups))
    if not len(groups):
        return places
    is_first = np.append(True, groups[1:] != groups[:-1])
    ranks: Indexes = places - np.maximum.accumulate(np.where(is_first, places, 0))
    return ranks
