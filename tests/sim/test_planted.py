"""The simulator must be able to fail: every planted bug is found again."""

from __future__ import annotations

import pytest

from tierfetch.sim.scenarios.runner import run_seed
from tierfetch.tests.distribution import ROOT
from tierfetch.tests.sim.planted.registry import BUGS, known_findings
from tierfetch.tests.sim.planted.search import SEEDS_MAX, TABLE_FILE, is_judged, promising_seeds

OTHER_SEEDS = 12
"""A change of the code under test changes what happens in a seed: some others are tried then."""


def test_the_table_names_every_planted_bug_and_the_seed_that_finds_it() -> None:
    findings = known_findings()
    left = BUGS.keys() - findings.keys()
    assert findings.keys() <= BUGS.keys(), "make search-planted"
    assert {name for name in left if BUGS[name].shown_by is None} == set(), "make search-planted"
    assert max(found.seed for found in findings.values()) <= SEEDS_MAX
    table = TABLE_FILE.read_text()
    assert not [name for name in BUGS if name not in table], "make search-planted"


@pytest.mark.parametrize(
    ("failure", "is_of_a_judge"),
    [
        ("whole ISR: t-0: 7 is committed", True),
        ("stopped by itself: controller-1: a decision failed: AssertionError((3, 4))", True),
        ("TypeError: check() takes 3 positional arguments", False),
        ("unexpected: AttributeError(\"no attribute '_cut'\")", False),
    ],
)
def test_a_patch_that_does_not_fit_finds_nothing(failure: str, is_of_a_judge: bool) -> None:
    assert is_judged(failure) is is_of_a_judge


@pytest.mark.parametrize("name", sorted(BUGS))
def test_a_planted_bug_fits_the_code(name: str) -> None:
    """What it replaces is there, and is there again at the end: a rename shows here, before any seed is run."""
    with BUGS[name].plant():
        pass
    assert (ROOT / BUGS[name].file).is_file()


@pytest.mark.planted
@pytest.mark.parametrize("name", sorted(known_findings()))
def test_a_planted_bug_is_found_again(name: str) -> None:
    bug, seed = BUGS[name], known_findings()[name].seed
    others = [each for each in promising_seeds(bug) if each != seed]
    for number in (seed, *others[:OTHER_SEEDS]):
        with bug.plant():
            report = run_seed(number, bug.scenario)
        if report.has_failed and is_judged(report.failures[0]):
            return
    pytest.fail(f"{name}: neither seed {seed} nor {OTHER_SEEDS} others find it: make search-planted")
