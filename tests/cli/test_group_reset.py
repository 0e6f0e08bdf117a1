"""`groups reset --to`: what it takes, and the offset that each target comes to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.cli.groups.reset import Anchor, Target, new_offset, parse


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("earliest", Target(Anchor.EARLIEST)),
        ("latest", Target(Anchor.LATEST)),
        ("0", Target(Anchor.OFFSET, 0)),
        ("120000", Target(Anchor.OFFSET, 120_000)),
        ("+100", Target(Anchor.COMMITTED, 100)),
        ("-100", Target(Anchor.COMMITTED, -100)),
        ("2026-01-31T12:00:00Z", Target(Anchor.TIME, 1_769_860_800_000)),
        ("2026-01-31T13:00:00+01:00", Target(Anchor.TIME, 1_769_860_800_000)),
        ("2026-01-31T12:00:00", Target(Anchor.TIME, 1_769_860_800_000)),
    ],
)
def test_targets(text: str, target: Target) -> None:
    assert parse(text) == target


@pytest.mark.parametrize("text", ["", "first", "+", "-", "--5", "+-5", "1.5", "٣", "yesterday"])
def test_what_is_no_target_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="expected earliest, latest, an offset") as refused:
        parse(text)
    assert repr(text) in str(refused.value)


@pytest.mark.parametrize(
    ("target", "committed", "at_time", "offset"),
    [
        (Target(Anchor.EARLIEST), None, None, 100),
        (Target(Anchor.LATEST), 150, None, 200),
        (Target(Anchor.OFFSET, 120), None, None, 120),
        (Target(Anchor.OFFSET, 7), None, None, 100),
        (Target(Anchor.OFFSET, 999), None, None, 200),
        (Target(Anchor.COMMITTED, 10), 150, None, 160),
        (Target(Anchor.COMMITTED, -60), 150, None, 100),
        (Target(Anchor.COMMITTED, 10), None, None, None),
        (Target(Anchor.TIME, 1), None, 130, 130),
        (Target(Anchor.TIME, 1), None, None, 200),
    ],
)
def test_new_offsets(target: Target, committed: int | None, at_time: int | None, offset: int | None) -> None:
    assert new_offset(target, earliest=100, latest=200, committed=committed, at_time=at_time) == offset


@given(st.sampled_from(Anchor), st.integers(-(2**63), 2**63), st.integers(0, 2**40), st.integers(0, 2**40))
def test_a_new_offset_is_always_within_the_partition(anchor: Anchor, number: int, earliest: int, length: int) -> None:
    found = new_offset(Target(anchor, number), earliest=earliest, latest=earliest + length, committed=5)
    assert found is not None
    assert earliest <= found <= earliest + length
