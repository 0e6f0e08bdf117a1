"""An inventory: a cluster as a person writes it or a capture finds it, checked, with a message for each thing wrong.

    version: 1
    broker_defaults: {nic_in_bytes_per_s: 10 Gbit/s, ...}     # optional; a broker's own values win
    brokers: [{id: 1, rack: a, ...}]
    links: [{from_rack: a, to_rack: b, bandwidth_bytes_per_s: 40 Gbit/s, latency_ms: 0.7}]
    tier: {latency_ms: 30, bandwidth_bytes_per_s: 100 Gbit/s, ...}
    topics: [{name: orders, tiered: true, partitions: [{index: 0, replicas: [1, 2, 3], leader: 1, ...}]}]

How the sizes of a partition lie on its offsets:

    log start            local log start      next upload            log end
    |--------------------|--------------------|----------------------|
    |<------------- tiered_bytes ------------>|<-- pending_bytes --->|
                         |<---------------- local_bytes ------------>|
    |<------------------------- size_bytes ------------------------->|

so `pending = size - tiered <= local <= size` (no offset in neither place). What is wrong is an `InventoryError`, which
names every problem at once; what is only unwise is in `warnings` (checks.py).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from ..protocol.errors import OperatorError
from .complaints import complaint, is_unfilled
from .units import FILL_IN, Bytes, Capacity, Rate

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


class InventoryError(OperatorError, ValueError):
    """Everything that is wrong with an inventory, a line for each."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


Seconds = Annotated[float, Field(ge=0)]
Price = Annotated[float, Field(ge=0)]


class Broker(_Strict):
    """One machine. `partitions_max`: replicas it may hold (a limit of the operator's), None: any number."""

    id: Annotated[int, Field(ge=0, le=2**31 - 1)]
    rack: str = ""
    nic_in_bytes_per_s: Capacity
    nic_out_bytes_per_s: Capacity
    disk_read_bytes_per_s: Capacity
    disk_write_bytes_per_s: Capacity
    cores: Annotated[float, Field(gt=0)]
    disk_bytes: Capacity
    partitions_max: Annotated[int, Field(gt=0)] | None = None


class Link(_Strict):
    """What all brokers of one rack together can send to those of another; None: no limit of its own."""

    from_rack: str
    to_rack: str
    bandwidth_bytes_per_s: Capacity | None = None
    latency_ms: Seconds = 0.0


class Tier(_Strict):
    """The remote store. Prices in one currency: for each read, and for each GB (10^9 bytes) that is read."""

    latency_ms: Seconds = 30.0
    bandwidth_bytes_per_s: Capacity = 12.5e9
    price_per_get: Price = 0.0
    price_per_gb_egress: Price = 0.0


class RemoteLogManager(_Strict):
    """How fast leaders tier. `copy_bytes_per_s`: a broker's quota (None: none); a pass begins every `interval_s`."""

    interval_s: Annotated[float, Field(gt=0)] = 30.0
    copy_bytes_per_s: Capacity | None = None


class BoundedLocal(_Strict):
    """What `bounded-local` keeps local: at least so many tiered bytes, and those of so many seconds."""

    bytes_min: Bytes = 0.0
    seconds_min: Seconds = 0.0


class Partition(_Strict):
    """One partition; see the module's picture. The rates are of all producers and of all consumers together.

    A leader of -1 (or null) is none. `log_start_offset` 0 means that retention has deleted nothing yet: Apache Kafka's
    follower then begins at offset 0.
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


class Topic(_Strict):
    """`tiered`: remote storage is enabled (never so for compacted topics). Index 0, 1, ... need not be complete."""

    name: Annotated[str, Field(min_length=1, max_length=249, pattern=r"^[a-zA-Z0-9._-]+$")]
    tiered: bool = False
    min_insync_replicas: Annotated[int, Field(gt=0, le=2**31 - 1)] = 1
    segment_bytes: Capacity = float(1 << 30)
    partitions: tuple[Partition, ...]


class Inventory(_Strict):
    """The whole cluster. `throttle_bytes_per_s`: of each broker, in each direction, for replicas that are built.
    `warmer_bytes_per_s`: what each broker's background warmer may read from the tier for thin replicas.
    """

    version: Literal[1]
    name: str = "cluster"
    brokers: Annotated[tuple[Broker, ...], Field(min_length=1)]
    links: tuple[Link, ...] = ()
    tier: Tier = Tier()
    throttle_bytes_per_s: Capacity | None = None
    bootstrap_policy: Policy = Policy.TIER_FIRST
    bounded_local: BoundedLocal = BoundedLocal()
    rlm: RemoteLogManager = RemoteLogManager()
    warmer_bytes_per_s: Capacity = float(20 << 20)
    topics: tuple[Topic, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _broker_defaults(cls, value: Any) -> Any:
        if not isinstance(value, Mapping) or "broker_defaults" not in value:
            return value
        rest = {key: item for key, item in value.items() if key != "broker_defaults"}
        defaults, brokers = value["broker_defaults"], value.get("brokers")
        if not isinstance(defaults, Mapping):
            raise ValueError("broker_defaults: expected keys of a broker, such as nic_in_bytes_per_s: 10 Gbit/s")
        if isinstance(brokers, list | tuple):
            rest["brokers"] = [{**defaults, **each} if isinstance(each, Mapping) else each for each in brokers]
        return rest

    @classmethod
    def from_yaml(cls, text: str) -> Self:
        """YAML or JSON. InventoryError."""
        try:
            if text.lstrip().startswith("{"):
                document: Any = json.loads(text)
            else:
                document = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: no JSON, no number, no date
            raise InventoryError([f"neither YAML nor JSON: {' '.join(str(error).split())}"]) from None
        return cls.from_document(document)

    @classmethod
    def from_document(cls, document: object) -> Self:
        """Of plain dicts and lists. InventoryError names all that is wrong, in the file's own words."""
        from .checks import contradictions

        if not isinstance(document, Mapping):
            raise InventoryError(["expected a document with version, brokers and topics"])
        try:
            found = cls.model_validate(document)
        except ValidationError as error:
            raise InventoryError(_lines(document, error)) from None
        if problems := contradictions(found):
            raise InventoryError(problems)
        return found

    @classmethod
    def read(cls, path: Path) -> Self:
        """InventoryError begins each line with the file's name; OSError."""
        try:
            return cls.from_yaml(path.read_text(encoding="utf-8"))
        except UnicodeDecodeError:
            raise InventoryError([f"{path}: no text in UTF-8"]) from None
        except InventoryError as error:
            raise InventoryError([f"{path}: {problem}" for problem in error.problems]) from None

    def to_yaml(self) -> str:
        """Read back, it is equal to this."""
        document = self.model_dump(mode="json", exclude_none=True)
        return yaml.safe_dump(document, sort_keys=False, default_flow_style=None, width=120)

    def warnings(self) -> list[str]:
        """What is allowed, but unwise or about to go wrong; a line for each."""
        from .checks import doubts

        return doubts(self)

    @property
    def partition_count(self) -> int:
        return sum(len(topic.partitions) for topic in self.topics)


NAMED_MAX = 5
"""Places of one complaint that are named; the rest is counted."""


def _lines(document: Mapping[str, Any], error: ValidationError) -> list[str]:
    """Each thing once: what stands in `broker_defaults` is not said of every broker, and what is not filled in is one
    line for each key. A list whose items are wrong is not too short as well.
    """
    lines: dict[str, None] = {}
    unfilled: dict[str, dict[str, None]] = {}
    for each in error.errors(include_url=False):
        if each["type"] == "too_short" and each["input"]:
            continue
        *places, key = _place(document, each["loc"]) or [""]
        where = " ".join(places)
        if is_unfilled(each):
            unfilled.setdefault(key, {})[where] = None
        else:
            lines[_line(f"{where} {key}".strip(), each)] = None
    return [*(_unfilled(key, list(places)) for key, places in unfilled.items()), *lines]


def _line(where: str, error: ErrorDetails) -> str:
    match error["type"]:
        case "missing":
            return f"{where} is missing; no rate or size is guessed"
        case "extra_forbidden":
            return f"{where} is no key of an inventory"
    return f"{where}: {complaint(error)}" if where else complaint(error)


def _unfilled(key: str, places: list[str]) -> str:
    more = f" and {len(places) - NAMED_MAX} more" if len(places) > NAMED_MAX else ""
    example = "10 Gbit/s or 500 MiB/s" if key.endswith("_per_s") else "2 TiB" if key.endswith("_bytes") else "16"
    where = ", ".join(places[:NAMED_MAX]) + more
    return f"{key} of {where} is not filled in: put what it is in place of {FILL_IN}, such as {example}"


def _place(document: Mapping[str, Any], loc: Sequence[int | str]) -> list[str]:
    """The steps to a value, with brokers, topics and partitions named by what they are called in the file."""
    match loc:
        case ("brokers", int(position), str(key)) if _is_default(document, position, key):
            return ["broker_defaults", key]
    place: list[str] = []
    node: Any = document
    for step in loc:
        node = _child(node, step)
        place.append(_named(place, step, node))
    return [part for part in place if part]


def _is_default(document: Mapping[str, Any], position: int, key: str) -> bool:
    """Whether the broker has this value from `broker_defaults`."""
    defaults, broker = document.get("broker_defaults"), _child(document.get("brokers"), position)
    return isinstance(defaults, Mapping) and key in defaults and isinstance(broker, Mapping) and key not in broker


def _child(node: Any, step: int | str) -> Any:
    if isinstance(node, Mapping):
        return node.get(step)
    return node[step] if isinstance(node, list | tuple) and isinstance(step, int) and step < len(node) else None


def _named(place: list[str], step: int | str, node: Any) -> str:
    if step in ("brokers", "topics", "partitions", "links"):
        return str(step)
    if not isinstance(step, int) or not place or place[-1] not in ("brokers", "topics", "partitions", "links"):
        return str(step) if isinstance(step, str) else f"[{step}]"
    kind = place.pop().removesuffix("s")
    key = {"broker": "id", "topic": "name", "partition": "index"}.get(kind)
    name = node.get(key) if key and isinstance(node, Mapping) else None
    return f"{kind} {name}" if name is not None else f"{kind} at position {step + 1}"
