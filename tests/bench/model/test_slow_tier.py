"""The tier of the lab: slow and narrow as two files say."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from tierfetch.bench.model.lab import LATENCY_FILE, PLUGIN, RATE_FILE, _write_tier
from tierfetch.plugins.local import LocalConfig


@pytest.fixture(scope="module")
def plugin() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tierfetch_slow_tier", PLUGIN / "tierfetch_slow_tier.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_lab_writes_what_both_plugins_read(tmp_path: Path) -> None:
    _write_tier(tmp_path / "tier", 40, 8.5)
    assert {each.name: each.read_text() for each in (tmp_path / "tier").iterdir()} == {
        LATENCY_FILE: "40",
        RATE_FILE: "8500000",
    }
    _write_tier(tmp_path / "tier", 0, None)
    assert (tmp_path / "tier" / RATE_FILE).read_text() == "0"
    for source in ("tierfetch_slow_tier.py", "SlowTieredStorage.java"):
        text = (PLUGIN / source).read_text()
        assert f'"{LATENCY_FILE}"' in text
        assert f'"{RATE_FILE}"' in text


def test_brokers_share_what_is_narrow_by_turns(plugin: ModuleType, tmp_path: Path) -> None:
    """Two brokers, one after the other: each waits for the turns before its own, and who is late makes up for it."""
    _write_tier(tmp_path, 0, 1.0)
    one, other = (plugin.SlowLocalTieredStorage(LocalConfig(dir=tmp_path)) for _ in range(2))
    waits = [broker._turn_s(10.0) for broker in (one, other, one)]
    assert waits == pytest.approx([10.0, 20.0, 30.0], abs=5.0)
    assert waits[0] < 10.0, "a turn begins a little before now"
    assert waits[1] - waits[0] == pytest.approx(10.0, abs=2.5), "nothing is lost between turns"


async def test_what_has_no_limit_takes_no_turn(plugin: ModuleType, tmp_path: Path) -> None:
    _write_tier(tmp_path, 0, None)
    await plugin.SlowLocalTieredStorage(LocalConfig(dir=tmp_path))._pass(10**12)
    assert not (tmp_path / "turn").exists()


async def test_bytes_take_as_many_turns_as_pieces(plugin: ModuleType, tmp_path: Path) -> None:
    """The rate is 1 TB/s, so that the test takes no time."""
    _write_tier(tmp_path, 0, 1e6)
    tier = plugin.SlowLocalTieredStorage(LocalConfig(dir=tmp_path))
    turns: list[float] = []

    def turn_s(takes_s: float) -> float:
        turns.append(takes_s)
        return 0.0

    tier._turn_s = turn_s
    await tier._pass(2 * plugin.PIECE_BYTES + 1)
    assert turns == pytest.approx([plugin.PIECE_BYTES / 1e12] * 2 + [1 / 1e12])
