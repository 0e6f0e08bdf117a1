"""How pauses of the loop are read from two scrapes of a histogram."""

from __future__ import annotations

from tierfetch.bench.partitions.bare_loop import BareLoop
from tierfetch.bench.partitions.command import pauses_between


def scrape(**counts: int) -> dict[str, float]:
    """Cumulative counts of the buckets up to 20 ms, 50 ms, 100 ms and more."""
    names = {"a": "0.02", "b": "0.05", "c": "0.1", "rest": "+Inf"}
    buckets = {f"tierfetch_loop_pause_seconds_bucket{{{names[name]}}}": float(n) for name, n in counts.items()}
    return buckets | {"tierfetch_loop_pause_seconds_sum": 1.0}


def test_only_pauses_between_the_scrapes_count() -> None:
    assert pauses_between(scrape(a=10, b=12, c=13, rest=14), scrape(a=90, b=95, c=99, rest=100)) == (0.1, 3)


def test_the_longest_is_bounded_by_the_first_bucket_that_holds_all() -> None:
    assert pauses_between(scrape(a=0, b=0, c=0, rest=0), scrape(a=5, b=5, c=5, rest=5)) == (0.02, 0)


def test_D10_a_bare_loop_says_how_late_it_was_called() -> None:
    with BareLoop(limit_s=-1) as beside:
        found = beside.stop()
    assert found.longest_s > -1
    assert found.over >= 1
