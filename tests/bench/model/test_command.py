"""Which scenarios the options ask for, and whether a file's session is of the same ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click
import pytest

from tierfetch.bench.model.command import _check_choice, _check_same, _wished
from tierfetch.bench.model.draw import drawn
from tierfetch.bench.model.record import Record
from tierfetch.bench.model.scenario import NETWORKS, TESTS


def test_scenarios_are_chosen_drawn_or_on_links() -> None:
    assert _wished((), None, 30, None, networks=False) == list(TESTS)
    assert _wished((), None, 30, None, networks=True) == list(NETWORKS)
    assert _wished(("store",), None, 30, None, networks=True) == [each for each in NETWORKS if "store" in each.name]
    assert _wished((), 7, 3, None, networks=False) == drawn(7, 3)
    assert _wished((), 7, 3, None, networks=True) == drawn(7, 3, networks=True)
    assert {each.links_mb_s for each in _wished((), 7, 3, 20.0, networks=False)} == {20.0}


def test_options_that_exclude_each_other() -> None:
    with pytest.raises(click.UsageError, match="--scenarios chooses, --random draws"):
        _check_choice(("store",), 7, None, (), networks=False)
    for wanted, seed, links_mb_s, networks in (
        (("store",), None, None, False),
        ((), 7, None, False),
        ((), None, 20.0, False),
        ((), None, None, True),
    ):
        with pytest.raises(click.UsageError, match="--calibrate measures constants and judges nothing"):
            _check_choice(wanted, seed, links_mb_s, ("c-waves",), networks=networks)
    with pytest.raises(click.UsageError, match="--networks has links of its own"):
        _check_choice((), None, 20.0, (), networks=True)
    with pytest.raises(click.UsageError, match="6 brokers in 2 racks, copy"):
        _wished(("no such",), None, 3, None, networks=True)


def test_a_file_of_another_session_is_not_continued(tmp_path: Path) -> None:
    record = Record(tmp_path / "model.json", "python -m bench model")
    record.seed = 7
    record.entry(drawn(7, 1)[0], "tierfetch", is_test=True)
    _check_same(record, 7, drawn(7, 3))
    with pytest.raises(click.UsageError, match="a session of seed 7"):
        _check_same(record, 8, drawn(8, 3))
    for other in (drawn(7, 3, networks=True), [replace(each, links_mb_s=20.0) for each in drawn(7, 3)]):
        with pytest.raises(click.UsageError, match=r"another 'drawn 1'.* the same --networks or --links-mb-s"):
            _check_same(record, 7, other)
