"""An inventory: a cluster as a person writes it or a capture finds it, checked, with a message for each thing wrong.

    version: 1
    broker_defaults: {nic_in_bytes_per_s: 10 Gbit/s, ...}     # optional; a broker's own values win
    brokers: [{id: 1, rack: a, ...}]
    racks: [{name: a, uplink_out_bytes_per_s: 40 Gbit/s, uplink_in_bytes_per_s: 40 Gbit/s}]
    links: [{from_rack: a, to_rack: b, bandwidth_bytes_per_s: 40 Gbit/s, latency_ms: 0.7}]
    tier: {latency_ms: 30, bandwidth_bytes_per_s: 100 Gbit/s, ...}
    topics: [{name: orders, tiered: true, partitions: [{index: 0, replicas: [1, 2, 3], leader: 1, ...}]}]

A rate that is not known exactly is a range: "5 Gbit/s to 10 Gbit/s" (unsure.py).

What is wrong is an `InventoryError`, which names every problem at once; what is only unwise is in `warnings`
(checks.py). The parts are in inventory_parts.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import yaml
from pydantic import ValidationError, model_validator
from pydantic_core import ErrorDetails

from ..protocol import OperatorError
from .checks import contradictions, doubts
from .complaints import complaint, is_unfilled
from .inventory_parts import Cluster
from .units import FILL_IN
from .unsure import with_middles


class InventoryError(OperatorError, ValueError):
    """Everything that is wrong with an inventory, a line for each."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class Inventory(Cluster):
    """The whole cluster, as it was written."""

    @model_validator(mode="before")
    @classmethod
    def _as_written(cls, value: object) -> object:
        return with_middles(cls._with_defaults(value)) if isinstance(value, Mapping) else value

    @classmethod
    def _with_defaults(cls, value: Mapping[str, object]) -> Mapping[str, object]:
        if "broker_defaults" not in value:
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
        """Build it from plain dicts and lists. InventoryError names all that is wrong, in the file's own words."""
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
            raise InventoryError([f"{path}: not UTF-8 text"]) from None
        except InventoryError as error:
            raise InventoryError([f"{path}: {problem}" for problem in error.problems]) from None

    def to_yaml(self) -> str:
        """Read back, it is equal to this."""
        document = self.model_dump(mode="json", exclude_none=True)
        return yaml.safe_dump(document, sort_keys=False, default_flow_style=None, width=120)

    def warnings(self) -> list[str]:
        """What is allowed, but unwise or about to go wrong; a line for each."""
        return doubts(self)

    @property
    def partition_count(self) -> int:
        return sum(len(topic.partitions) for topic in self.topics)


NAMED_MAX = 5
"""Places of one complaint that are named; the rest is counted."""
_LISTS = ("brokers", "racks", "links", "topics", "partitions")


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
    return f"{key} of {where} is not filled in: replace {FILL_IN} by a value such as {example}"


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
    if step in _LISTS:
        return str(step)
    if not isinstance(step, int) or not place or place[-1] not in _LISTS:
        return str(step) if isinstance(step, str) else f"[{step}]"
    kind = place.pop().removesuffix("s")
    key = {"broker": "id", "rack": "name", "topic": "name", "partition": "index"}.get(kind)
    name = node.get(key) if key and isinstance(node, Mapping) else None
    return f"{kind} {name}" if name is not None else f"{kind} at position {step + 1}"
