"""What producers and consumers need of brokers, and of what a rack's brokers share; what that leaves for moves.

A replica that comes from a leader in another rack passes what all brokers of a rack share:

    the link from the one rack to the other     numbered from * racks + to, also within a rack
    the uplink out of the leader's rack         after these, by rack
    the uplink into the new replica's           after these, by rack

KIP-73 throttles brokers, not racks. Of what passes one of these, each source sends and each target receives at most the
throttle, so all of it is at most the throttle times `at_once`: the sources or the targets, whichever are fewer. What
has no limit is left out: a cluster without limits has no passages.
"""

from __future__ import annotations

import numpy as np

from .. import byte_text
from ..light_dataclass import dataclass
from ..model import MOVES_SHARE_MIN, NO_BROKER, ClusterArrays, Floats, Ints, Moves, foreground_between_racks
from .goals import PlanError
from .placement import Indexes


def foreground(arrays: ClusterArrays) -> tuple[Floats, Floats]:
    """[B] each, bytes for each second into and out of every broker: produce, replication, consume, tiering."""
    brokers = arrays.broker_count
    is_led = arrays.leader != NO_BROKER
    leader = arrays.leader.clip(0)
    rate = np.where(is_led, arrays.produce, 0.0)
    into = np.bincount(leader, weights=rate, minlength=brokers).astype(np.float64)
    copies = arrays.tiered[arrays.topic].astype(np.float64)
    for slot in range(arrays.replicas.shape[1]):
        follower = arrays.replicas[:, slot]
        follows = arrays.in_sync[:, slot] & (follower != arrays.leader)
        copies += follows
        into += np.bincount(follower + 1, weights=rate * follows, minlength=brokers + 1)[1:]
    consumed = np.where(is_led, arrays.consume, 0.0)
    out = np.bincount(leader, weights=rate * copies + consumed, minlength=brokers).astype(np.float64)
    return into, out


@dataclass(frozen=True, eq=False, slots=True)
class Passages:
    """`move` [X] passes `shared` [X]. [S] each, of what is shared: what it can carry, what the foreground takes, what
    that leaves when it has grown by the headroom (none or less where nothing is left), and of how many brokers the
    throttles let moves through at once; 0 where none passes.
    """

    move: Indexes
    shared: Indexes
    capacity: Floats
    foreground: Floats
    spare: Floats
    at_once: Indexes


def passages_of(arrays: ClusterArrays, moves: Moves, headroom: float) -> Passages:
    """What the moves pass of all that has a limit."""
    found = foreground_between_racks(arrays)
    capacity = np.concatenate([arrays.link_bytes_per_s.ravel(), arrays.uplink_out, arrays.uplink_in])
    taken = np.concatenate([found.links.ravel(), found.out, found.into])
    source, target, racks = arrays.leader[moves.partition], moves.target, len(arrays.rack_names)
    home, there = arrays.racks[source].astype(np.int64), arrays.racks[target].astype(np.int64)
    copies = np.flatnonzero(source != NO_BROKER)
    leaves = copies[home[copies] != there[copies]]
    move = np.concatenate([copies, leaves, leaves])
    shared = np.concatenate(
        [
            home[copies] * racks + there[copies],
            racks**2 + home[leaves],
            racks**2 + racks + there[leaves],
        ]
    )
    is_limited = np.isfinite(capacity[shared])
    move, shared = move[is_limited], shared[is_limited]
    senders, receivers = (_distinct(shared, side[move], len(capacity)) for side in (source, target))
    return Passages(move, shared, capacity, taken, capacity - taken * (1 + headroom), np.minimum(senders, receivers))


def _distinct(shared: Indexes, brokers: Ints, count: int) -> Indexes:
    """How many brokers there are of each that is shared."""
    pairs = np.unique(np.stack([shared, brokers.astype(np.int64)]), axis=1)
    return np.bincount(pairs[0], minlength=count)


def safe_throttle(
    arrays: ClusterArrays, sources: Indexes, targets: Indexes, passages: Passages, headroom: float
) -> float:
    """Bytes for each second that every broker of a plan can spare, and all that brokers share, when the foreground has
    grown by `headroom`; infinite where no capacity is known. PlanError names what can spare nothing.
    """
    into, out = foreground(arrays)
    spare_in = np.minimum(arrays.nic_in, arrays.disk_write) - into * (1 + headroom)
    spare_out = np.minimum(arrays.nic_out - out * (1 + headroom), arrays.disk_read)
    # One rate for the whole plan, the tightest broker's: KIP-73 throttles by broker, but a replica that waits for a
    # slow source holds up its wave in any case, and one number is what an operator can check.
    spare = np.inf
    for brokers, bytes_per_s, way, load in ((sources, spare_out, "out", out), (targets, spare_in, "in", into)):
        if not len(brokers):
            continue
        tightest = int(brokers[np.argmin(bytes_per_s[brokers])])
        _check_spare(
            bytes_per_s[tightest], f"broker {arrays.broker_ids[tightest]}", load[tightest], f" {way}", headroom
        )
        spare = min(spare, float(bytes_per_s[tightest]))
    passed = np.flatnonzero(passages.at_once)
    if not len(passed):
        return spare
    shares = passages.spare[passed] / passages.at_once[passed]
    tightest = int(passed[np.argmin(shares)])
    _check_spare(passages.spare[tightest], _name_of(arrays, tightest), passages.foreground[tightest], "", headroom)
    return min(spare, float(shares.min()))


def _check_spare(spare: float, name: str, load: float, way: str, headroom: float) -> None:
    if spare <= 0:
        raise PlanError(
            f"{name} has no capacity to spare: {byte_text.rate(load)}{way} now, and {headroom:.0%} more for growth;"
            " lower the headroom, or give a throttle"
        )


def _name_of(arrays: ClusterArrays, shared: int) -> str:
    names = arrays.rack_names
    if shared < len(names) ** 2:
        return f"the link from rack {names[shared // len(names)]} to rack {names[shared % len(names)]}"
    way, rack = divmod(shared - len(names) ** 2, len(names))
    return f"the uplink {('out of', 'into')[way]} rack {names[rack]}"


def shares_of_waves(
    passages: Passages, partition: Ints, bytes_per_s: Floats, throttle: float
) -> tuple[Indexes, Indexes, Floats]:
    """What the moves of each partition take of what they pass: (partition, shared, share), each pair once. `partition`
    is that of each move; a wave has room for 1 if each copy of a partition takes its `bytes_per_s` [P].

    Where a throttle was given that leaves no headroom, moves share what they would get: at least `MOVES_SHARE_MIN`.
    """
    rates = np.minimum(
        np.maximum(passages.spare, MOVES_SHARE_MIN * passages.capacity), throttle * passages.at_once.clip(1)
    )
    pairs, copies = np.unique(
        np.stack([partition[passages.move].astype(np.int64), passages.shared]), axis=1, return_counts=True
    )
    return pairs[0], pairs[1], copies * bytes_per_s[pairs[0]] / rates[pairs[1]]
