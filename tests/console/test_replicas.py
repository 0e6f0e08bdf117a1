"""The sign of each replica, and the parts of its bar."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.console.core.replicas import BarPart, OnDisk, PartKind, ReplicaBar, Sign, replica_bars
from tierfetch.console.core.state import Offsets, Partition

PARTITION = Partition(topic="t", index=0, leader=1, epoch=7, replicas=(1, 2), isr=(1, 2))
TIERED = Offsets(earliest=0, local=60, tiered=79, pending=80, latest=100)
FULL = OnDisk(size_bytes=400)


def follower(
    held: OnDisk | None,
    *,
    isr: tuple[int, ...] = (1, 2),
    alive: tuple[int, ...] = (1, 2),
    adding: tuple[int, ...] = (),
    offline: tuple[int, ...] = (),
    unreachable: tuple[int, ...] = (),
    offsets: Offsets | None = TIERED,
) -> ReplicaBar:
    part = Partition(topic="t", index=0, leader=1, epoch=7, replicas=(1, 2), isr=isr, offline=offline)
    disks = {1: {("t", 0): FULL}, 2: {} if held is None else {("t", 0): held}}
    return replica_bars(part, offsets, disks, alive, adding, unreachable)[1]


def kinds(bar: ReplicaBar) -> list[tuple[str, float, float]]:
    return [(part.kind.value, round(part.start, 6), round(part.width, 6)) for part in bar.parts]


@pytest.mark.parametrize(
    ("bar", "sign"),
    [
        (follower(FULL), Sign.IN_SYNC),
        (follower(FULL, alive=(1,)), Sign.OFFLINE),
        (follower(FULL, unreachable=(2,)), Sign.UNREACHABLE),
        (follower(FULL, unreachable=(2,), alive=(1,)), Sign.OFFLINE),
        (follower(FULL, offline=(2,)), Sign.FAILED),
        (follower(OnDisk(size_bytes=0, is_out_of_service=True)), Sign.FAILED),
        (follower(None, isr=(1,)), Sign.BOOTSTRAPPING),
        (follower(OnDisk(size_bytes=100), isr=(1,), adding=(2,)), Sign.BOOTSTRAPPING),
        (follower(OnDisk(size_bytes=100), isr=(1,)), Sign.CATCHING_UP),
        (follower(OnDisk(size_bytes=100, warming_bytes_left=300, warm_in_ms=5)), Sign.WARMING),
        (follower(OnDisk(size_bytes=100, warm_in_ms=5)), Sign.THIN),
    ],
)
def test_the_sign_of_a_follower(bar: ReplicaBar, sign: Sign) -> None:
    assert bar.sign is sign


def test_the_leaders_bar_is_exact() -> None:
    leader = replica_bars(PARTITION, TIERED, {1: {("t", 0): FULL}}, (1, 2))[0]
    assert (leader.sign, leader.is_estimate) == (Sign.LEADER, False)
    assert kinds(leader) == [("remote", 0, 0.6), ("local", 0.6, 0.2), ("pending", 0.8, 0.2)]


def test_a_thin_follower_has_the_end_of_the_log_and_the_tier_has_the_rest() -> None:
    bar = follower(OnDisk(size_bytes=200, warm_in_ms=5))
    assert bar.is_estimate
    assert kinds(bar) == [("remote", 0, 0.8), ("pending", 0.8, 0.2)]


def test_a_follower_outside_the_isr_lacks_the_end() -> None:
    bar = follower(OnDisk(size_bytes=100), isr=(1,))
    assert kinds(bar) == [("remote", 0, 0.6), ("local", 0.6, 0.1), ("remote", 0.7, 0.1), ("missing", 0.8, 0.2)]
    assert bar.progress == 0.25


def test_a_warming_replicas_progress_is_of_its_own_bytes() -> None:
    bar = follower(OnDisk(size_bytes=100, warming_bytes_left=300, warming_seconds_left=12))
    assert (bar.progress, bar.seconds_left) == (0.25, 12)


def test_without_a_tier_everything_is_local() -> None:
    bar = follower(FULL, offsets=Offsets(earliest=10, local=10, latest=20))
    assert bar.parts == (BarPart(PartKind.LOCAL, 0.0, 1.0),)


def test_kafkas_leader_with_nothing_pending_names_no_next_upload() -> None:
    offsets = Offsets(earliest=0, local=50, tiered=99, latest=100)
    assert (offsets.next_upload, offsets.copy_lag) == (100, 0)
    assert Offsets(earliest=0, latest=9).copy_lag is None


@pytest.mark.parametrize("offsets", [None, Offsets(), Offsets(earliest=5, latest=5)])
def test_no_offsets_no_bar(offsets: Offsets | None) -> None:
    assert follower(FULL, offsets=offsets).parts == ()


def test_a_broker_that_did_not_answer_has_no_bar() -> None:
    away = replica_bars(PARTITION, TIERED, {1: {("t", 0): FULL}}, (1,))[1]
    assert (away.sign, away.parts, away.size_bytes) == (Sign.OFFLINE, (), None)


_offset = st.none() | st.integers(0, 1000)


@given(
    st.builds(Offsets, earliest=_offset, local=_offset, tiered=_offset, pending=_offset, latest=_offset),
    st.integers(0, 500),
    st.booleans(),
)
def test_the_parts_of_a_bar_lie_side_by_side_and_fill_it(offsets: Offsets, size: int, is_in_isr: bool) -> None:
    bar = follower(OnDisk(size_bytes=size), isr=(1, 2) if is_in_isr else (1,), offsets=offsets)
    end = 0.0
    for part in bar.parts:
        assert part.start == pytest.approx(end)
        assert part.width > 0
        end = part.start + part.width
    assert not bar.parts or end == pytest.approx(1.0)
    assert all(one.kind is not other.kind for one, other in zip(bar.parts, bar.parts[1:], strict=False))
