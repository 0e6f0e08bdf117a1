"""The simulator must be able to fail: every planted bug is found again."""

from __future__ import annotations

import pytest

from tierfetch.sim.runner import run_seed
from tierfetch.tests.sim.planted.registry import BUGS, known_findings
from tierfetch.tests.sim.planted.search import SEEDS_MAX, TABLE_FILE, promising_seeds

OTHER_SEEDS = 12
"""A change of the code under test changes what happens in a seed: some others are tried then."""


def test_the_table_names_every_planted_bug_and_the_seeds_that_find_most() -> None:
    findings = known_findings()
    assert len(findings) >= 20
    assert findings.keys() <= BUGS.keys(), "make search-planted"
    assert max(found.seed for found in findings.values()) <= SEEDS_MAX
    table = TABLE_FILE.read_text()
    assert not [name for name in BUGS if name not in table], "make search-planted"


@pytest.mark.planted
@pytest.mark.parametrize("name", sorted(known_findings()))
def test_a_planted_bug_is_found_again(name: str) -> None:
    bug, seed = BUGS[name], known_findings()[name].seed
    others = [each for each in promising_seeds(bug) if each != seed]
    for number in (seed, *others[:OTHER_SEEDS]):
        with bug.plant():
            if run_seed(number, bug.scenario).has_failed:
                return
    pytest.fail(f"{name}: neither seed {seed} nor {OTHER_SEEDS} others find it: make search-planted")
