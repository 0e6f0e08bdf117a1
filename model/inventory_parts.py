"""The parts of an inventory: brokers, racks, the tier, topics and partitions; each value checked by itself.

How the sizes of a partition map to its offsets:

    log start            local log start      next upload            log end
    |--------------------|--------------------|----------------------|
    |<------------- tiered_bytes ------------>|<-- pending_bytes --->|
                         |<---------------- local_bytes ------------>|
    |<------------------------- size_bytes ------------------------->|

so `pending = size - tiered <= local <= size` (no offset in neither place).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from .units import Bytes, Capacity, Rate
from .unsure import Unsure

BYTES_TOLERANCE = 1.0
"""Sizes may differ by rounding."""


class Policy(StrEnum):
    """Which bytes a new replica takes from the leader. The first five are tierfetch's, the last two Apache Kafka's.

    `KAFKA` is Apache Kafka 4.3.0 with `follower.fetch.last.tiered.offset.enable` off, `KAFKA_LAST_TIERED` with it on,
    as shipped: it asks only after a refusal, and does not know the next upload of a partition with nothing pending.
    """

    LOG_START = "log-start"
    LOCAL_LOG_START = "local-log-start"
    EARLIEST_PENDING_UPLOAD = "earliest-pending-upload"
    TIER_FIRST = "tier-first"
    BOUNDED_LOCAL = "bounded-local"
    KAFKA = "kafka"
    KAFKA_LAST_TIERED = "kafka-last-tiered"


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


Seconds = Annotated[float, Field(ge=0)]
Price = Annotated[float, Field(ge=0)]


class LogDir(Strict):
    """One log directory of a broker (JBOD). `disk_bytes` None: not known; `used_bytes` of its replicas now."""

    path: Annotated[str, Field(min_length=1)]
    disk_bytes: Capacity | None = None
    used_bytes: Bytes = 0.0


class Broker(Strict):
    """One machine. `partitions_max`: replicas it may hold (a limit of the operator's), None: any number. `log_dirs`:
    where there are several, so that a plan can name one for each replica that comes.
    """

    id: Annotated[int, Field(ge=0, le=2**31 - 1)]
    rack: str = ""
    nic_in_bytes_per_s: Capacity
    nic_out_bytes_per_s: Capacity
    disk_read_bytes_per_s: Capacity
    disk_write_bytes_per_s: Capacity
    cores: Annotated[float, Field(gt=0)]
    disk_bytes: Capacity
    partitions_max: Annotated[int, Field(gt=0)] | None = None
    log_dirs: tuple[LogDir, ...] = ()


class Link(Strict):
    """What all brokers of one rack together can send to those of another; None: no limit of its own."""

    from_rack: str
    to_rack: str
    bandwidth_bytes_per_s: Capacity | None = None
    latency_ms: Seconds = 0.0


class Rack(Strict):
    """One rack: what all its brokers together can send to what is outside of it, and get from there; None: no limit.
    Outside are the other racks, all clients, and the tier.
    """

    name: str
    uplink_out_bytes_per_s: Capacity | None = None
    uplink_in_bytes_per_s: Capacity | None = None


class Tier(Strict):
    """The remote store. Prices in one currency: for each read, each write, and each GB (10^9 bytes) that is read."""

    latency_ms: Seconds = 30.0
    bandwidth_bytes_per_s: Capacity = 12.5e9
    price_per_get: Price = 0.0
    price_per_put: Price = 0.0
    price_per_gb_egress: Price = 0.0


class RemoteLogManager(Strict):
    """How fast leaders tier. `copy_bytes_per_s`: a broker's quota (None: none); a pass begins every `interval_s`."""

    interval_s: Annotated[float, Field(gt=0)] = 30.0
    copy_bytes_per_s: Capacity | None = None


class BoundedLocal(Strict):
    """What `bounded-local` keeps local: at least so many tiered bytes, and those of so many seconds."""

    bytes_min: Bytes = 0.0
    seconds_min: Seconds = 0.0


class Lag(Strict):
    """A replica that is out of sync and copies: its broker, and the bytes that it still lacks."""

    broker: Annotated[int, Field(ge=0, le=2**31 - 1)]
    bytes: Bytes


class Partition(Strict):
    """One partition; see the module's picture. The rates are of all producers and of all consumers together.

    A leader of -1 (or null) is none. `log_start_offset` 0 means that retention has deleted nothing yet: Apache Kafka's
    follower then begins at offset 0. `lags`: the replicas out of sync that are copying now; others, on brokers that
    are dead, copy nothing.
    """

    index: Annotated[int, Field(ge=0, le=2**31 - 1)]
    replicas: Annotated[tuple[int, ...], Field(min_length=1)]
    leader: Annotated[int, Field(ge=-1, le=2**31 - 1)]
    isr: tuple[int, ...]
    size_bytes: Bytes
    local_bytes: Bytes
    tiered_bytes: Bytes = 0.0
    produce_bytes_per_s: Rate = 0.0
    consume_bytes_per_s: Rate = 0.0
    log_start_offset: Annotated[int, Field(ge=0, le=2**63 - 1)] = 1
    lags: tuple[Lag, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _defaults(cls, value: Any) -> Any:
        """The first replica leads, all are in sync, all is local, unless it says otherwise."""
        replicas = value.get("replicas") if isinstance(value, Mapping) else None
        if not isinstance(replicas, list | tuple) or not replicas:
            return value
        own = {"leader": replicas[0], "isr": replicas, **value}
        own["leader"] = -1 if own["leader"] is None else own["leader"]
        if "size_bytes" in own:
            own.setdefault("local_bytes", own["size_bytes"])
        return own

    @property
    def pending_bytes(self) -> float:
        """From the next upload to the log end."""
        return max(0.0, self.size_bytes - self.tiered_bytes)


class Topic(Strict):
    """`tiered`: remote storage is enabled (never so for compacted topics). Index 0, 1, ... need not be complete."""

    name: Annotated[str, Field(min_length=1, max_length=249, pattern=r"^[a-zA-Z0-9._-]+$")]
    tiered: bool = False
    min_insync_replicas: Annotated[int, Field(gt=0, le=2**31 - 1)] = 1
    segment_bytes: Capacity = float(1 << 30)
    partitions: tuple[Partition, ...]


class Cluster(Strict):
    """All parts of a cluster. `throttle_bytes_per_s`: of each broker, in each direction, for replicas that are built.
    `warmer_bytes_per_s`: what each broker's background warmer may read from the tier for thin replicas. `unsure`: the
    ends of figures that are not known exactly.
    """

    version: Literal[1]
    name: str = "cluster"
    brokers: Annotated[tuple[Broker, ...], Field(min_length=1)]
    racks: tuple[Rack, ...] = ()
    links: tuple[Link, ...] = ()
    tier: Tier = Tier()
    throttle_bytes_per_s: Capacity | None = None
    bootstrap_policy: Policy = Policy.TIER_FIRST
    bounded_local: BoundedLocal = BoundedLocal()
    rlm: RemoteLogManager = RemoteLogManager()
    warmer_bytes_per_s: Capacity = float(20 << 20)
    topics: tuple[Topic, ...] = ()
    unsure: tuple[Unsure, ...] = ()
