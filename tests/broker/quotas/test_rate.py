"""Rates over windows and throttle times, as Kafka's Rate, SampledStat and QuotaUtils have them (KIP-13)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.broker.quotas.core import sensors as sensors_module
from tierfetch.broker.quotas.core.rate import THROTTLE_MS_MAX, SampledRate, throttle_ms
from tierfetch.broker.quotas.core.sensors import IDLE_MS, Sensors

ALICE = ("alice", "")


@pytest.mark.parametrize(
    ("observed", "bound", "measured_ms", "expected"),
    [
        (500, 500, 10_000, 0),
        (0, 500, 10_000, 0),
        (510, 500, 11_000, 220),
        (1000, 500, 10_000, 10_000),
        (550, 500, 10_500, 1_050),
        (500.1, 500, 2_500, 1),
        (500.1, 500, 2_499, 0),
        (1e18, 1, 10_000, THROTTLE_MS_MAX),
        (1, 5e-324, 10_000, THROTTLE_MS_MAX),
    ],
)
def test_throttle_time(observed: float, bound: float, measured_ms: int, expected: int) -> None:
    assert throttle_ms(observed, bound, measured_ms) == expected


def test_kafkas_example_of_the_byte_rate() -> None:
    """ClientQuotaManagerTest.testQuotaViolation: 400 bytes a second stay below 500; then 2,300 at half a second give
    600 over 10.5 s, and 2,100 ms to wait; they are over when the client may go on.
    """
    rate = SampledRate(11, 1000)
    now_ms = 0
    for _ in range(10):
        rate.record(400, now_ms)
        assert throttle_ms(rate.measure(now_ms), 500, rate.measured_ms(now_ms)) == 0
        now_ms += 1000
    now_ms += 500
    rate.record(2300, now_ms)
    assert rate.measured_ms(now_ms) == 10_500
    assert rate.measure(now_ms) == 600
    assert throttle_ms(600, 500, 10_500) == 2100
    now_ms += 1000
    rate.record(0, now_ms)
    assert throttle_ms(rate.measure(now_ms), 500, rate.measured_ms(now_ms)) > 0
    now_ms += 10_000
    rate.record(0, now_ms)
    assert throttle_ms(rate.measure(now_ms), 500, rate.measured_ms(now_ms)) == 0


def test_the_first_bytes_are_measured_over_all_windows_but_one() -> None:
    rate = SampledRate(11, 1000)
    rate.record(5000, 7_777)
    assert (rate.measured_ms(7_777), rate.measure(7_777)) == (10_000, 500.0)


def test_what_was_recorded_is_forgotten_after_all_windows() -> None:
    rate = SampledRate(3, 1000)
    rate.record(300, 0)
    assert rate.measure(2_999) == pytest.approx(300 / 2.999)
    assert rate.measure(3_000) == 0.0


def test_a_sample_that_overlaps_the_windows_counts_as_a_whole() -> None:
    rate = SampledRate(3, 1000)
    for value, now_ms in ((1, 0), (10, 999), (100, 1_000), (1_000, 2_000), (10_000, 3_000)):
        rate.record(value, now_ms)
    assert (rate.measured_ms(3_000), rate.measure(3_000)) == (3_000, 11_111 / 3)


def test_a_rate_of_one_window_that_has_just_begun_is_zero() -> None:
    rate = SampledRate(1, 1000)
    rate.record(10, 5)
    assert rate.measure(5) == 0.0


EVENTS = st.lists(st.tuples(st.integers(0, 3_000), st.integers(0, 10_000)), min_size=1, max_size=60)


@given(EVENTS, st.integers(2, 12), st.sampled_from([500, 1000, 7000]))
def test_a_rate_is_what_came_in_the_windows(events: list[tuple[int, int]], samples: int, window_ms: int) -> None:
    rate, now_ms, history = SampledRate(samples, window_ms), 0, []
    for wait_ms, value in events:
        now_ms += wait_ms
        rate.record(value, now_ms)
        history.append((now_ms, value))
        elapsed_ms = rate.measured_ms(now_ms)
        total = rate.measure(now_ms) * elapsed_ms / 1000
        least = sum(value for at_ms, value in history if now_ms - at_ms < (samples - 1) * window_ms)
        most = sum(value for at_ms, value in history if now_ms - at_ms < (samples + 1) * window_ms)
        assert least - 1e-6 <= total <= most + 1e-6
        assert (samples - 1) * window_ms <= elapsed_ms <= (samples + 1) * window_ms


@given(EVENTS, st.integers(1, 2_000))
def test_who_waits_as_told_stays_near_the_bound(events: list[tuple[int, int]], bound: int) -> None:
    """A client that obeys gets, over any run, its bound and what fits into the windows besides, plus its last bytes."""
    rate, now_ms, sent, last = SampledRate(11, 1000), 0, 0, 0
    for wait_ms, value in events:
        now_ms += wait_ms
        rate.record(value, now_ms)
        sent, last = sent + value, max(last, value)
        now_ms += throttle_ms(rate.measure(now_ms), bound, rate.measured_ms(now_ms))
    assert sent <= bound * (now_ms / 1000 + 11) + 11 * last


# Sensors.


def test_who_shares_a_sensor_is_throttled_together_and_others_are_not() -> None:
    sensors = Sensors(11, 1000)
    assert sensors.record(ALICE, 5_000, 500, 0) == 0
    assert sensors.record(ALICE, 5_000, 500, 0) == 10_000
    assert sensors.record(("bob", ""), 5_000, 500, 0) == 0
    ((_, bob), (_, alice)) = sensors.items(0)
    assert (alice.throttles, alice.throttled_ms, bob.throttles) == (1, 10_000, 0)


def test_what_is_taken_back_does_not_count() -> None:
    sensors = Sensors(11, 1000)
    assert sensors.record(ALICE, 6_000, 500, 0) == 2_000
    sensors.take_back(ALICE, 6_000, 0)
    assert sensors.record(ALICE, 5_000, 500, 0) == 0


def test_what_may_come_at_once() -> None:
    sensors = Sensors(11, 1000)
    assert sensors.burst(500) == 5_000
    assert sensors.record(ALICE, sensors.burst(500), 500, 0) == 0


def test_idle_sensors_go() -> None:
    sensors = Sensors(11, 1000)
    sensors.record(ALICE, 1, 500, 0)
    sensors.record(("bob", ""), 1, 500, 10)
    assert [name for name, _ in sensors.items(IDLE_MS)] == [("bob", "")]


def test_sensors_are_bounded_and_the_least_recently_used_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sensors_module, "SENSORS_MAX", 2)
    sensors = Sensors(11, 1000)
    for name in ("a", "b", "a", "c"):
        sensors.record((name, ""), 1, 500, 0)
    assert [name for (name, _), _ in sensors.items(0)] == ["c", "a"]
