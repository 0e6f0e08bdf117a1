"""What the options that the model's commands share are read into."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Self

import click
import numpy as np
from rich.console import Console
from rich.markup import escape

from ...light_dataclass import dataclass
from ...model import CalibrationError, Calibrations, ClusterArrays, Inventory, InventoryError

WARNINGS_MAX = 5
"""Shown; the rest is counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What `options.cluster_options` were read into."""

    arrays: ClusterArrays
    warnings: list[str]
    calibrations: Calibrations
    is_throttle_given: bool
    as_json: bool
    html_path: Path | None

    @classmethod
    def read(
        cls,
        *,
        cluster_path: Path,
        calibration_path: Path | None,
        throttle: float | None,
        as_json: bool,
        html_path: Path | None,
    ) -> Self:
        """ClickException says every problem of the files."""
        inventory = _inventory(cluster_path)
        arrays = ClusterArrays.from_inventory(inventory)
        return cls(
            arrays=arrays if throttle is None else replace(arrays, throttle_bytes_per_s=throttle),
            warnings=inventory.warnings(),
            calibrations=calibrations_of(calibration_path),
            is_throttle_given=throttle is not None,
            as_json=as_json,
            html_path=html_path,
        )

    def say_warnings(self) -> None:
        """On standard error, so that standard output stays a document."""
        console = Console(stderr=True)
        shown = self.warnings[:WARNINGS_MAX]
        if len(self.warnings) > WARNINGS_MAX:
            shown.append(f"{len(self.warnings) - WARNINGS_MAX} more like these")
        for line in shown:
            console.print(f"[yellow]warning:[/] {escape(line)}", highlight=False)


def _inventory(path: Path) -> Inventory:
    try:
        return Inventory.read(path)
    except InventoryError as error:
        raise click.ClickException("\n".join(error.problems)) from None
    except OSError as error:
        raise click.ClickException(f"{path}: cannot be read: {error.strerror}") from None


def calibrations_of(path: Path | None) -> Calibrations:
    """What ships with the package without a file. ClickException."""
    try:
        return Calibrations.default() if path is None else Calibrations.read(path)
    except CalibrationError as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{path}: cannot be read: {error.strerror}") from None


def brokers_of(arrays: ClusterArrays, ids: tuple[int, ...]) -> list[int]:
    """Indices of `--broker`s, each once. UsageError names an id that does not exist."""
    try:
        found = [arrays.broker_index(each) for each in dict.fromkeys(ids)]
    except KeyError as error:
        raise click.UsageError(str(error.args[0])) from None
    if len(found) == arrays.broker_count:
        raise click.UsageError("these are all brokers: nothing is left to copy from")
    return found


def held_bytes(arrays: ClusterArrays, brokers: list[int]) -> float:
    """What these brokers' replicas hold, as their leaders do."""
    rows, _ = np.nonzero(np.isin(arrays.replicas, brokers))
    return float(arrays.local_bytes[rows].sum())
