"""Followers that are behind already: they take of what moves need, and no answer is about them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.model.arrays import ClusterArrays
from tierfetch.model.engine import simulate
from tierfetch.model.failures import fail_over
from tierfetch.model.inventory import Inventory, InventoryError
from tierfetch.model.inventory_parts import Policy
from tierfetch.model.moves import moves_between, replacement_moves
from tierfetch.model.results import ModelResult
from tierfetch.tests.model.builders import GB, MB, PLAIN, broker, cluster, document, partition

LOCAL = Policy.LOCAL_LOG_START


def behind(lacks_gb: float, broker_id: int = 3) -> list[dict[str, Any]]:
    return [{"broker": broker_id, "bytes": lacks_gb * GB}]


def lagging(lacks_gb: float, **keys: Any) -> dict[str, Any]:
    """Broker 2 leads, broker 1 will be replaced, and broker 3 is behind."""
    return partition(0, [2, 1, 3], 1.0, isr=[2, 1], lags=behind(lacks_gb), **keys)


def copying(arrays: ClusterArrays, *dead: int) -> int:
    """How many of the arrays' lags take part."""
    return len(arrays.lags.copying(arrays.replicas, arrays.leader, dead))


def replaced(arrays: ClusterArrays, **keys: Any) -> ModelResult:
    return simulate(arrays, replacement_moves(arrays, 0), LOCAL, PLAIN, resolution=0.0, **keys)


def of_one_link(*rows: dict[str, Any], **keys: Any) -> ClusterArrays:
    """Broker 2 sends 100 MB/s."""
    return cluster([broker(1), broker(2, nic_out_bytes_per_s=100 * MB), broker(3)], list(rows), **keys)


@pytest.mark.parametrize(
    ("lacks_gb", "seconds"),
    [(0.0, 10.0), (0.5, 15.0), (1.0, 20.0), (4.0, 20.0)],
)
def test_who_is_behind_has_half_of_the_leaders_link_until_it_has_caught_up(lacks_gb: float, seconds: float) -> None:
    result = replaced(of_one_link(lagging(lacks_gb)))
    assert result.duration_s == pytest.approx(seconds)
    assert len(result.joined_s) == 1
    assert result.leader_bytes == pytest.approx(GB), "what the other one copies is not the new broker's"
    assert result.cause_s.sum() == pytest.approx(seconds)


def test_it_needs_no_start() -> None:
    slow = PLAIN.model_copy(update={"start_s": 4.0})
    arrays = of_one_link(lagging(0.5))
    result = simulate(arrays, replacement_moves(arrays, 0), LOCAL, slow, resolution=0.0)
    assert result.duration_s == pytest.approx(4.0 + 10.0 + 1.0), "0.1 of 0.5 GB were left"


def test_one_that_has_caught_up_needs_what_producers_write() -> None:
    row = lagging(0.2, produce_bytes_per_s=10 * MB)
    alone = partition(0, [2, 1], 1.0, produce_bytes_per_s=10 * MB)
    with_it, without = (replaced(of_one_link(each)) for each in (row, alone))
    caught_up_s = 0.2 * GB / (50 * MB - 10 * MB)
    left = GB - caught_up_s * (50 * MB - 10 * MB)
    assert with_it.duration_s == pytest.approx(caught_up_s + left / (100 * MB - 10 * MB - 10 * MB))
    assert without.duration_s == pytest.approx(GB / (100 * MB - 10 * MB))


def test_who_never_catches_up_holds_nothing_back_for_ever() -> None:
    row = lagging(1.0, produce_bytes_per_s=60 * MB)
    result = replaced(of_one_link(row, partition(1, [3, 1], 1.0)))
    assert np.isfinite(result.joined_s[1])
    assert not np.isfinite(result.joined_s[0]), "of 100 MB/s half is less than what is written"


def test_it_goes_on_over_waves_and_between_them() -> None:
    """The leader's link is its own before a wave copies, and half of it while one does."""
    brokers = [broker(1), broker(2, nic_out_bytes_per_s=100 * MB), broker(3), broker(4)]
    rows = [partition(0, [2, 3], 4.0, isr=[2], lags=behind(1.5)), *(partition(each, [2, 1], 0.5) for each in (1, 2))]
    arrays = cluster(brokers, rows)
    moves = moves_between(arrays, np.array([[1, 2], [1, 3], [1, 3]], dtype=np.int32))
    waves = replace(moves, wave=np.array([0, 1], dtype=np.int32))
    pace = PLAIN.model_copy(update={"wave_s": 2.0, "isr_expansion_s": 1.0})
    result = simulate(arrays, waves, LOCAL, pace, resolution=0.0)
    # 2 s alone (0.2 GB), 10 s shared (0.5), 1 + 2 s alone (0.3), 10 s shared (0.5): nothing is left at the end
    assert result.joined_s == pytest.approx([2 + 10 + 1, 13 + 2 + 10 + 1])
    less = cluster(brokers, [{**rows[0], "lags": behind(1.0)}, *rows[1:]])
    assert simulate(less, waves, LOCAL, pace, resolution=0.0).joined_s == pytest.approx([13, 13 + 2 + 5 + 1])


def test_the_throttle_holds_it_back_too() -> None:
    rows = [lagging(1.0), partition(1, [2, 3], 1.0)]
    arrays = of_one_link(*rows, throttle_bytes_per_s=40 * MB)
    assert replaced(arrays).duration_s == pytest.approx(GB / (20 * MB)), "broker 2 sends 40 MB/s to both"


def test_who_is_replaced_or_no_replica_any_longer_is_not_behind() -> None:
    arrays = of_one_link(lagging(1.0))
    assert copying(arrays) == 1
    assert not copying(arrays, 2), "its broker is replaced"
    assert not copying(replace(arrays, replicas=np.array([[1, 0]], dtype=np.int32)))
    assert not copying(fail_over(arrays, [0, 1])), "nobody leads"
    result = simulate(arrays, replacement_moves(arrays, 2), LOCAL, PLAIN)
    assert result.duration_s == pytest.approx(10.0)


@given(lacks=st.lists(st.floats(0, 2), min_size=2, max_size=2))
def test_more_that_others_lack_never_makes_it_quicker(lacks: list[float]) -> None:
    less, more = sorted(lacks)
    assert replaced(of_one_link(lagging(less))).duration_s <= replaced(of_one_link(lagging(more))).duration_s + 1e-6


def test_what_is_behind_survives_every_form() -> None:
    inventory = Inventory.from_document(document(3, [partition(1, [2, 1]), lagging(0.5)]))
    assert Inventory.from_yaml(inventory.to_yaml()) == inventory
    assert Inventory.from_yaml(json.dumps(inventory.model_dump(mode="json", exclude_none=True))) == inventory
    assert ClusterArrays.from_inventory(inventory).to_inventory() == inventory


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ({"lags": behind(1.0, 2), "isr": [1, 2]}, "t-0: 2 lags, and is in the ISR [1, 2]"),
        ({"lags": behind(1.0, 9), "isr": [1]}, "t-0: 9 lags, but is no replica ([1, 2])"),
        ({"lags": behind(1.0, 2) * 2, "isr": [1]}, "t-0: broker 2 lags twice"),
    ],
)
def test_who_cannot_be_behind_is_named(keys: dict[str, Any], line: str) -> None:
    with pytest.raises(InventoryError) as error:
        Inventory.from_document(document(2, [partition(0, [1, 2], **keys)]))
    assert line in error.value.problems
