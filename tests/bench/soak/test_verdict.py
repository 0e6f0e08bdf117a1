"""What a soak calls a leak."""

from __future__ import annotations

import pytest

from tierfetch.bench.soak.probe import Latencies, quantile
from tierfetch.bench.soak.verdict import MIB, Growth, Sample, growths, latency_growths


def samples(descriptors: list[int], pss_bytes: int = 100 * MIB) -> list[Sample]:
    return [Sample(float(at), pss_bytes, 120 * MIB, count, 50) for at, count in enumerate(descriptors)]


def leaks(descriptors: list[int]) -> list[str]:
    return [growth.quantity for growth in growths(samples(descriptors)) if growth.is_leak]


def test_what_grows_slowly_all_the_time_is_a_leak() -> None:
    assert leaks([100 + 2 * at for at in range(60)]) == ["descriptors"]


def test_what_grows_in_the_first_tenth_is_none() -> None:
    assert leaks([10 * at for at in range(6)] + [200] * 54) == []


def test_one_high_sample_at_the_end_is_none() -> None:
    assert leaks([100] * 59 + [500]) == []


def test_the_tolerance_is_the_larger_of_a_share_and_a_number() -> None:
    assert not Growth("descriptors", 100, 116).is_leak
    assert Growth("descriptors", 100, 117).is_leak
    assert not Growth("descriptors", 1_000, 1_100).is_leak
    assert Growth("descriptors", 1_000, 1_101).is_leak
    assert not Growth("pss_bytes", 50 * MIB, 58 * MIB).is_leak
    assert Growth("pss_bytes", 50 * MIB, 58 * MIB + 1).is_leak


def test_too_few_samples_give_no_verdict() -> None:
    with pytest.raises(ValueError, match="9 samples of pss_bytes: at least 10 are needed"):
        growths(samples([100] * 9))


def test_D10_a_cluster_that_becomes_slow_is_found() -> None:
    def slower(p50_ms: float, p99_ms: float) -> list[str]:
        rows = [{"p50_ms": 20.0, "p99_ms": 200.0}] * 50 + [{"p50_ms": p50_ms, "p99_ms": p99_ms}] * 10
        return [growth.quantity for growth in latency_growths(rows) if growth.is_leak]

    assert slower(30, 300) == []
    assert slower(31, 300) == ["p50_ms"]
    assert slower(20, 301) == ["p99_ms"]


def test_latencies_are_those_since_the_last_look() -> None:
    latencies = Latencies()
    for seconds in (0.3, 0.1, None, 0.2):
        latencies.note(seconds)
    assert latencies.take() == [0.1, 0.2, 0.3]
    assert latencies.take() == []
    assert (latencies.acknowledged, latencies.failed) == (3, 1)


def test_a_quantile_is_one_of_the_values() -> None:
    assert quantile([1.0, 2.0, 3.0, 4.0], 0.5) == 3.0
    assert quantile([1.0], 0.99) == 1.0
