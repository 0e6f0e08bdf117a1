"""The sensors of one kind of quota: a rate for everybody who shares a bound.

A sensor begins with the first request that has a bound, and goes when it was not used for `IDLE_MS`, or when
`SENSORS_MAX` others were used since.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ....light_dataclass import dataclass
from .rate import SampledRate, throttle_ms

SENSORS_MAX: Final = 10_000
IDLE_MS: Final = 3_600_000
"""As Kafka's inactive sensors."""


@dataclass(slots=True)
class Sensor:
    """A rate, and how long its clients had to wait so far."""

    rate: SampledRate
    used_ms: int
    throttled_ms: int = 0
    throttles: int = 0


class Sensors:
    """Sensors by the names that share a bound."""

    def __init__(self, samples: int, window_ms: int) -> None:
        self._samples = samples
        self._window_ms = window_ms
        self._sensors: dict[tuple[str, str], Sensor] = {}
        """The least recently used first."""

    def __len__(self) -> int:
        return len(self._sensors)

    def burst(self, bound: float) -> float:
        """Return what may come at once without being above the bound: that of all windows but one."""
        return bound * (self._samples - 1) * self._window_ms / 1000

    def is_quiet(self, name: tuple[str, str], now_ms: int) -> bool:
        """Return whether nothing came in the windows that count."""
        sensor = self._sensors.get(name)
        return sensor is None or not sensor.rate.measure(now_ms)

    def record(self, name: tuple[str, str], value: float, bound: float, now_ms: int) -> int:
        """Record what came, and return for how many milliseconds its client has to wait."""
        sensor = self._sensor(name, now_ms)
        sensor.rate.record(value, now_ms)
        wait_ms = throttle_ms(sensor.rate.measure(now_ms), bound, sensor.rate.measured_ms(now_ms))
        if wait_ms:
            sensor.throttled_ms += wait_ms
            sensor.throttles += 1
        return wait_ms

    def take_back(self, name: tuple[str, str], value: float, now_ms: int) -> None:
        """Undo what was recorded just now."""
        self._sensor(name, now_ms).rate.record(-value, now_ms)

    def items(self, now_ms: int) -> Iterator[tuple[tuple[str, str], Sensor]]:
        """Yield what is in use, the most recently used first."""
        self._expire(now_ms)
        yield from reversed(self._sensors.items())

    def _sensor(self, name: tuple[str, str], now_ms: int) -> Sensor:
        sensor = self._sensors.pop(name, None)
        if sensor is None:
            self._expire(now_ms)
            if len(self._sensors) >= SENSORS_MAX:
                del self._sensors[next(iter(self._sensors))]
            sensor = Sensor(SampledRate(self._samples, self._window_ms), now_ms)
        sensor.used_ms = now_ms
        self._sensors[name] = sensor
        return sensor

    def _expire(self, now_ms: int) -> None:
        while self._sensors:
            oldest = next(iter(self._sensors))
            if now_ms - self._sensors[oldest].used_ms < IDLE_MS:
                return
            del self._sensors[oldest]
