"""A use costs the same however many segments are open, and cannot be parked."""

from __future__ import annotations

from tierfetch.log.segment.open_limit import LOOKS_MAX, OpenSegments


class Segment:
    looks = 0

    def __init__(self, *, is_active: bool = False, is_saved: bool = True) -> None:
        self.is_active = is_active
        self.is_saved = is_saved
        self.is_parked = False

    @property
    def can_park(self) -> bool:
        Segment.looks += 1
        return self.is_saved

    async def park(self) -> None:
        self.is_parked = True


async def test_active_segments_are_no_matter() -> None:
    open_segments = OpenSegments(2)
    for _ in range(100):
        await open_segments.opened(Segment(is_active=True))
    assert len(open_segments) == 0


async def test_the_oldest_is_parked_first() -> None:
    open_segments = OpenSegments(2)
    first, second, third = (Segment() for _ in range(3))
    for segment in (first, second, first, third):
        await open_segments.opened(segment)
    assert [first.is_parked, second.is_parked, third.is_parked] == [False, True, False]


async def test_those_that_cannot_be_parked_hold_nobody_up_and_go_when_they_can() -> None:
    open_segments = OpenSegments(10)
    unsaved = [Segment(is_saved=False) for _ in range(1_000)]
    for segment in unsaved:
        Segment.looks = 0
        await open_segments.opened(segment)
        assert Segment.looks <= LOOKS_MAX
    assert len(open_segments) == 1_000
    for segment in unsaved:
        segment.is_saved = True
        await open_segments.opened(segment)
    assert len(open_segments) == 10
