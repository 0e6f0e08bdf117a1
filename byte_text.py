"""Bytes as people read them, in one unit system for every table, page and message: KiB, MiB, GiB, each 1,024 times the
one before. What people write is read in either system (`50 MB/s` is 50,000,000 bytes); JSON documents have plain bytes.
"""

from __future__ import annotations

from typing import Final

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def size(count: float) -> str:
    """Return bytes with a unit and three digits at most: "149 B", "1.5 KiB", "18.7 MiB", "256 GiB"."""
    for unit in _UNITS[:-1]:
        if count < 1000:
            return _digits(count, unit)
        count /= 1024
    return _digits(count, _UNITS[-1])


def rate(bytes_per_s: float) -> str:
    """Return bytes for each second: "47.7 MiB/s"."""
    return f"{size(bytes_per_s)}/s"


def _digits(count: float, unit: str) -> str:
    return f"{count:,.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"
