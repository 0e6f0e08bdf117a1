"""The controller mutation quota (KIP-599): how many partitions a client may create and delete in a second.

Each entity with a limit has a token bucket. It holds `burst_s` seconds of the limit and begins full; each partition
takes a token, and it fills again at the limit's rate.

| the request's version | a bucket below zero | tokens |
|---|---|---|
| knows THROTTLING_QUOTA_EXCEEDED | refuses the topic with it | taken only while the bucket is not below zero |
| is older | lets everything through | always taken |

The response says how long the client has to wait: until the bucket is at zero again. A full bucket says the same as
none, so it is forgotten; an active controller begins without any, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from ....light_dataclass import dataclass
from ....log.core import INT32_MAX
from ....protocol import ApiKey, ErrorCode, KafkaError
from ...image.client_quotas import CONTROLLER_MUTATION_RATE, ClientQuotas

STRICT_SINCE: Final[Mapping[ApiKey, int]] = {
    ApiKey.CREATE_TOPICS: 6,
    ApiKey.DELETE_TOPICS: 5,
    ApiKey.CREATE_PARTITIONS: 3,
}
"""The APIs that are limited, and the version from which their clients know THROTTLING_QUOTA_EXCEEDED."""
BUCKETS_MAX: Final = 10_000
"""Buckets that are kept; beyond, the full ones are forgotten, and then the oldest."""

Charge = Callable[[int], None]
"""Takes a number of partitions. THROTTLING_QUOTA_EXCEEDED if they may not be changed now."""


def free_of_charge(_: int) -> None:
    """Let any number of partitions be changed."""


@dataclass(frozen=True, slots=True)
class MutationClient:
    """Who asks, and whether its version knows THROTTLING_QUOTA_EXCEEDED."""

    user: str
    client_id: str
    is_strict: bool


@dataclass(slots=True)
class TokenBucket:
    """Tokens at an instant; negative ones are owed."""

    tokens: float
    at_ms: int

    def refill(self, rate: float, burst: float, now_ms: int) -> None:
        """Add what has come since, up to `burst`."""
        self.tokens = min(burst, self.tokens + rate * max(0, now_ms - self.at_ms) / 1000)
        self.at_ms = now_ms


class MutationQuota:
    """The quota of one request. `throttle_ms` is what its response says."""

    def __init__(self, bucket: TokenBucket | None, rate: float, *, is_strict: bool) -> None:
        """`bucket` is as it is now; None where there is no limit."""
        self.throttle_ms = 0
        self._bucket = bucket
        self._rate = rate
        self._is_strict = is_strict

    def charge(self, partitions: int) -> None:
        """Take tokens. THROTTLING_QUOTA_EXCEEDED."""
        bucket = self._bucket
        if bucket is None:
            return
        if self._is_strict and bucket.tokens < 0:
            self._note()
            raise KafkaError(ErrorCode.throttling_quota_exceeded, "The throttling quota has been exceeded.")
        bucket.tokens -= partitions
        if not self._is_strict:
            self._note()

    def _note(self) -> None:
        if self._bucket is not None and self._bucket.tokens < 0:
            # A quota may be as small as a double can be: what the response cannot hold is shortened, as in `rate`.
            wait_ms = min(INT32_MAX, -self._bucket.tokens / self._rate * 1000)
            self.throttle_ms = max(self.throttle_ms, round(wait_ms))


class MutationQuotas:
    """The buckets of an active controller."""

    def __init__(self, burst_s: float) -> None:
        self._burst_s = burst_s
        self._buckets: dict[tuple[str, str], TokenBucket] = {}

    def __len__(self) -> int:
        return len(self._buckets)

    def of(self, quotas: ClientQuotas, client: MutationClient | None, now_ms: int) -> MutationQuota:
        """Return the quota of a request; one without a limit if no client asks, or no quota is set."""
        limit = None if client is None else quotas.client_limit(CONTROLLER_MUTATION_RATE, client.user, client.client_id)
        if client is None or limit is None:
            return MutationQuota(None, 0.0, is_strict=False)
        shared_by = limit.user, limit.client_id
        burst = limit.bound * self._burst_s
        bucket = self._buckets.get(shared_by)
        if bucket is None:
            self._make_room(now_ms)
            bucket = self._buckets[shared_by] = TokenBucket(burst, now_ms)
        bucket.refill(limit.bound, burst, now_ms)
        return MutationQuota(bucket, limit.bound, is_strict=client.is_strict)

    def _make_room(self, now_ms: int) -> None:
        """Forget buckets that have had the time to fill: those that owe nothing."""
        if len(self._buckets) < BUCKETS_MAX:
            return
        filled_ms = now_ms - round(self._burst_s * 1000)
        self._buckets = {
            key: bucket for key, bucket in self._buckets.items() if bucket.tokens < 0 or bucket.at_ms > filled_ms
        }
        while len(self._buckets) >= BUCKETS_MAX:
            del self._buckets[next(iter(self._buckets))]
