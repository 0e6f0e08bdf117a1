"""Bytes as people read them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.byte_text import rate, size
from tierfetch.model.units import parse_bytes


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (149, "149 B"),
        (999.4, "999 B"),
        (1000, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (19_600_000, "18.7 MiB"),
        (256 << 30, "256 GiB"),
        (3 << 40, "3.0 TiB"),
        (5_000 << 50, "5,000 PiB"),
    ],
)
def test_one_unit_system(count: float, text: str) -> None:
    assert size(count) == text
    assert rate(count) == f"{text}/s"


@given(st.integers(0, 10**18))
def test_what_is_shown_is_read_back_within_its_digits(count: int) -> None:
    assert float(str(parse_bytes(size(count)))) == pytest.approx(count, rel=0.06, abs=0.5)


def test_every_unit_is_one_of_1024() -> None:
    shown = {re.sub(r"[\d.,]+ ", "", size(10**power)) for power in range(18)}
    assert shown == {"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
