"""The sentence that a page begins with, and how bad it is. Pure.

    page                            bad                          warn                              good
    ------------------------------  ---------------------------  --------------------------------  ---------------------
    Overview, Topics, Partitions    a partition has no leader,   a broker is fenced or does not    every replica is in
                                    or a replica failed          answer, a replica is outside the  sync
                                                                 ISR, the tier fails
    Replace a broker                a replica is never in sync   figures are assumed or missing    all are in sync again

Nothing is known: the page says that, plainly. What could not be read is beside it, in `problems`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from ...light_dataclass import dataclass
from .replicas import Disk
from .state import Overview, Partition, Prediction

Tone = Literal["good", "warn", "bad", "plain"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """A sentence. `path` leads to what it is about."""

    tone: Tone
    text: str
    path: str = ""


def cluster_verdict(overview: Overview, partitions: Sequence[Partition], disks: Mapping[int, Disk]) -> Verdict:
    """Return the worst that can be said of the cluster."""
    if not overview.brokers:
        return Verdict("plain", "Nothing is known of the cluster yet.")
    leaderless = sum(part.leader < 0 for part in partitions)
    hurt = sum(part.is_hurt for part in partitions)
    failed = sum(held.is_out_of_service for disk in disks.values() for held in disk.values())
    failing = sum(held.tier_error is not None for disk in disks.values() for held in disk.values())
    fenced = sorted(broker.id for broker in overview.brokers if not broker.is_alive)
    if leaderless:
        return Verdict("bad", f"{_count(leaderless, 'partition')} without a leader.", "/partitions?only=hurt")
    if failed:
        return Verdict("bad", f"{_count(failed, 'replica')} that cannot serve.", "/partitions?only=hurt")
    if hurt or fenced:
        away = f"{_brokers(fenced)} {'is' if len(fenced) == 1 else 'are'} fenced; " if fenced else ""
        outside = f"{_count(hurt, 'partition')} with" if hurt else "no partition has"
        return Verdict("warn", f"{away}{outside} a replica outside the ISR.", "/partitions?only=hurt")
    unreachable = sorted(overview.unreachable)
    if unreachable:
        one = len(unreachable) == 1
        text = f"{_brokers(unreachable)} {'does' if one else 'do'} not answer, though the cluster has "
        text += "it as alive: its" if one else "them as alive: their"
        return Verdict("warn", f"{text} replicas may be out of sync.")
    if failing:
        return Verdict("warn", f"The last work in the tier failed for {_count(failing, 'replica')}.", "/partitions")
    return Verdict("good", f"Every replica of {_count(len(partitions), 'partition')} is in sync.")


def replacement_verdict(prediction: Prediction | None) -> Verdict | None:
    """Return what a prediction comes to: the cluster's own policy, and the fastest one. None before there is one."""
    if prediction is None:
        return None
    broker = prediction.broker
    if prediction.missing:
        return Verdict("warn", f"Broker {broker}: the model needs more figures.")
    if not prediction.outcomes:
        return None
    own = prediction.outcomes[0]
    never = own.get("never in sync", "0")
    if never != "0":
        return Verdict("bad", f"Broker {broker}: {never} of its replicas are never in sync under {own['policy']}.")
    text = f"Broker {broker}: all replicas are in sync after {own['all in sync after']} under {own['policy']}"
    fastest = min(prediction.seconds, key=lambda policy: prediction.seconds[policy], default=own["policy"])
    if prediction.seconds and prediction.seconds[fastest] < prediction.seconds.get(own["policy"], 0):
        faster = next(each for each in prediction.outcomes if each["policy"] == fastest)
        text += f"; {faster['all in sync after']} under {fastest}"
    return Verdict(
        "warn" if prediction.assumed else "good", f"{text}{', on assumed machines' * bool(prediction.assumed)}."
    )


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _brokers(numbers: Sequence[int]) -> str:
    return f"{'Broker' if len(numbers) == 1 else 'Brokers'} {_list(numbers)}"


def _list(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))
