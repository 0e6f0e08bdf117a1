"""What the console needs of a cluster; `cli.console.reading` is the one for live clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Protocol

from ..errors import OperatorError
from ..light_dataclass import dataclass
from .core.replicas import Disk
from .core.state import GroupLag, Key, Offsets, Overview, Prediction


@dataclass(frozen=True, slots=True)
class Look:
    """One look at the whole cluster; `disks` of the brokers that answered."""

    overview: Overview
    disks: Mapping[int, Disk] = field(default_factory=dict)


class UnknownNameError(OperatorError):
    """There is no such group or broker."""


class ClusterReader(Protocol):
    """Reads a cluster. Each request has a deadline; OSError and KafkaError where nothing can be shown without it."""

    async def look(self) -> Look:
        """Return all but offsets and lags; what could not be read is among its problems."""
        ...

    async def offsets(self, keys: Sequence[Key]) -> Mapping[Key, Offsets]:
        """Return the offsets of these partitions, as far as their leaders answer."""
        ...

    async def group_totals(self, groups: Sequence[str]) -> Mapping[str, int | None]:
        """Return the records that these groups have still to read, as far as that is known."""
        ...

    async def group_lag(self, group: str) -> GroupLag:
        """Return a group with its partitions. UnknownNameError."""
        ...

    async def predict(self, broker: int, known: Mapping[str, str]) -> Prediction:
        """Return what the model says of replacing a broker; `known`: figures that no request returns.
        UnknownNameError, OperatorError for a figure that makes no sense.
        """
        ...
