"""Every kept input is given to its target again."""

from __future__ import annotations

import pytest

from tierfetch.tests.fuzz.guided import CORPUS
from tierfetch.tests.fuzz.targets import TARGETS, run

INPUTS = sorted(CORPUS.glob("*/*"))


@pytest.mark.parametrize("name", TARGETS)
def test_no_input_at_all(name: str) -> None:
    run(name, b"")


@pytest.mark.parametrize("path", INPUTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_kept_input_raises_only_what_its_target_may(path) -> None:
    run(path.parent.name, path.read_bytes())


def test_every_folder_of_inputs_is_a_targets() -> None:
    assert {path.parent.name for path in INPUTS} <= set(TARGETS)
