"""Delays after failures."""

from __future__ import annotations

from random import Random

from tierfetch.remote.backoff import Backoff


def test_doubles_up_to_the_limit_and_begins_again_after_a_success() -> None:
    backoff = Backoff(100, 1_000, 0, Random(1))
    assert [backoff.next_delay_ms() for _ in range(6)] == [100, 200, 400, 800, 1_000, 1_000]
    backoff.reset()
    assert backoff.next_delay_ms() == 100


def test_jitter_stays_within_its_share_and_the_limit() -> None:
    random = Random(1)
    delays = [Backoff(100, 110, 0.2, random).next_delay_ms() for _ in range(200)]
    assert min(delays) >= 80
    assert max(delays) <= 110
    assert len(set(delays)) > 100
