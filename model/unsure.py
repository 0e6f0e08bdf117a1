"""What an inventory does not know exactly: "5 Gbit/s to 10 Gbit/s" in place of a figure.

The figure is then the middle of both (of ratios; of a range from zero, of sums), and both ends are kept in `unsure` of
the inventory, where they can also stand by themselves. A prediction is made at either end too, and its range is as wide
as that makes it (`uncertainty.py`). Rates of brokers, racks, links, the tier and producers may be ranges; sizes may
not, which a plan has to fit.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from .units import parse_bytes

BROKER_KEYS: Final = (
    "nic_in_bytes_per_s",
    "nic_out_bytes_per_s",
    "disk_read_bytes_per_s",
    "disk_write_bytes_per_s",
    "cores",
)
TIER_KEYS: Final = ("latency_ms", "bandwidth_bytes_per_s")
RACK_KEYS: Final = ("uplink_out_bytes_per_s", "uplink_in_bytes_per_s")
LINK_KEYS: Final = ("latency_ms", "bandwidth_bytes_per_s")
PARTITION_KEYS: Final = ("produce_bytes_per_s",)
_RANGE: Final = re.compile(r"\s*(.+?)\s+to\s+(.+?)\s*")
End = Literal["low", "high"]
Kind = Literal["broker", "rack", "link", "partition", "tier"]
_KEYS: Final[Mapping[Kind, tuple[str, ...]]] = {
    "broker": BROKER_KEYS,
    "rack": RACK_KEYS,
    "link": LINK_KEYS,
    "partition": PARTITION_KEYS,
    "tier": TIER_KEYS,
}


class Unsure(BaseModel):
    """One figure and its ends, between which it is in four of five cases: of a broker, a rack, a link between racks, a
    partition, or (none of these) of the tier.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    key: str
    low: Annotated[float, Field(ge=0)]
    high: Annotated[float, Field(ge=0)]
    broker: int | None = None
    rack: str | None = None
    from_rack: str | None = None
    to_rack: str | None = None
    topic: str | None = None
    partition: int | None = None

    @model_validator(mode="after")
    def _is_a_range(self) -> Self:
        if self.low > self.high:
            raise ValueError(f"{self.key}: from {self.low:g} to {self.high:g}: the lower end comes first")
        if self.key not in self._keys():
            raise ValueError(f"{self.key} cannot be a range: {', '.join(self._keys())} can")
        return self

    def _keys(self) -> tuple[str, ...]:
        return _KEYS[self.kind]

    @property
    def kind(self) -> Kind:
        if self.broker is not None:
            return "broker"
        if self.rack is not None:
            return "rack"
        if self.from_rack is not None:
            return "link"
        return "partition" if self.topic is not None else "tier"

    def at(self, end: End) -> float:
        """Return that end."""
        return self.low if end == "low" else self.high


def with_middles(document: Mapping[str, object]) -> dict[str, object]:
    """Return the document with the middle of each range in its place, and the ranges under `unsure`. ValueError for a
    range that is none.
    """
    found = dict(document)
    stated = found.get("unsure", ())
    if not isinstance(stated, list | tuple):
        return found
    unsure: list[dict[str, object]] = []
    for kind, keys, name in (
        ("brokers", BROKER_KEYS, _of_broker),
        ("racks", RACK_KEYS, _of_rack),
        ("links", LINK_KEYS, _of_link),
    ):
        rows = found.get(kind)
        if isinstance(rows, list | tuple):
            found[kind] = [_without_ranges(row, keys, name(row), unsure) for row in rows]
    if "tier" in found:
        found["tier"] = _without_ranges(found["tier"], TIER_KEYS, {}, unsure)
    topics = found.get("topics")
    if isinstance(topics, list | tuple):
        found["topics"] = [_of_topic(topic, unsure) for topic in topics]
    if unsure:
        found["unsure"] = [*stated, *unsure]
    return found


def _of_broker(row: object) -> dict[str, object]:
    return {"broker": row.get("id")} if isinstance(row, Mapping) else {}


def _of_rack(row: object) -> dict[str, object]:
    return {"rack": row.get("name")} if isinstance(row, Mapping) else {}


def _of_link(row: object) -> dict[str, object]:
    return {key: row.get(key) for key in ("from_rack", "to_rack")} if isinstance(row, Mapping) else {}


def _of_topic(topic: object, unsure: list[dict[str, object]]) -> object:
    if not isinstance(topic, Mapping):
        return topic
    partitions = topic.get("partitions")
    if not isinstance(partitions, list | tuple) or not any(map(_has_range, partitions)):
        return topic
    named = [
        _without_ranges(row, PARTITION_KEYS, {"topic": topic.get("name"), "partition": row.get("index")}, unsure)
        if isinstance(row, Mapping)
        else row
        for row in partitions
    ]
    return {**topic, "partitions": named}


def _has_range(row: object) -> bool:
    return isinstance(row, Mapping) and any(_ends(row.get(key)) for key in PARTITION_KEYS)


def _without_ranges(
    row: object, keys: tuple[str, ...], owner: Mapping[str, object], unsure: list[dict[str, object]]
) -> object:
    """Return the row with middles; its ranges are added to `unsure`."""
    if not isinstance(row, Mapping):
        return row
    found = dict(row)
    for key in keys:
        ends = _ends(row.get(key))
        if ends is None:
            continue
        low, high = (_number(key, end) for end in ends)
        found[key] = math.sqrt(low * high) if low > 0 else (low + high) / 2
        unsure.append({"key": key, "low": low, "high": high, **owner})
    return found


def _ends(value: object) -> tuple[str, str] | None:
    found = _RANGE.fullmatch(value) if isinstance(value, str) else None
    return (found[1], found[2]) if found else None


def _number(key: str, text: str) -> float:
    try:
        found = parse_bytes(text)
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from None
    assert isinstance(found, float), found
    return found


def groups(unsure: tuple[Unsure, ...]) -> Iterator[tuple[str, tuple[Unsure, ...]]]:
    """Yield figures that are unsure together (the same key of all brokers, say), with their name."""
    found: dict[tuple[str, str], list[Unsure]] = {}
    for each in unsure:
        found.setdefault((each.kind, each.key), []).append(each)
    for (kind, key), members in found.items():
        first = members[0]
        one = {
            "broker": f"{key} of broker {first.broker}",
            "rack": f"{key} of rack {first.rack}",
            "link": f"{key} of the link {first.from_rack} -> {first.to_rack}",
            "partition": f"{key} of {first.topic}-{first.partition}",
            "tier": f"{key} of the tier",
        }[kind]
        yield (one if len(members) == 1 else f"{key} of {len(members)} {kind}s"), tuple(members)
