"""The figures of a sample, the file of results, and the marks of equivalent mutants."""

from __future__ import annotations

from dataclasses import replace

import pytest

from .__main__ import drawn, known, reached_functions
from .coverage import Reach, sources_of
from .equivalent import FILE, Mark, marked, parse_marks
from .figures import Share, figures_of, survivor_lines, survivors
from .generate import mutants_of
from .judging import Side, Verdict

SURVIVED = Verdict("a", "1", Side("survived", ran=3, reached_by=3), Side("cut", ran=2, reached_by=9))
BY_SIM = Verdict("b", "1", Side("convicted", "seed 1", "wrong", 1, 4), Side("unreached"))
BY_UNIT = Verdict("c", "1", Side("unreached"), Side("hung", "test_x", "busy", 1, 4))
UNREACHED = Verdict("d", "1", Side("unreached"), Side("unreached"))
ALL = [SURVIVED, BY_SIM, BY_UNIT, UNREACHED]


@pytest.mark.parametrize(
    ("part", "whole", "low", "high"),
    [(0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (50, 100, 0.4038, 0.5962), (380, 400, 0.9241, 0.9674)],
)
def test_wilsons_interval(part: int, whole: int, low: float, high: float) -> None:
    assert Share(part, whole).interval == pytest.approx((low, high), abs=1e-4)


def test_of_nothing_nothing_is_known() -> None:
    assert Share(0, 0).interval == (0.0, 1.0)
    assert str(Share(0, 0)) == "none"


def test_figures() -> None:
    figures = figures_of(ALL)
    assert (figures.judged, figures.equivalent, figures.hung) == (4, 0, 1)
    assert (figures.reached, figures.reached_by_sim) == (Share(3, 4), Share(2, 4))
    assert (figures.sim_of_its_own, figures.sim, figures.unit) == (Share(1, 2), Share(1, 3), Share(1, 3))
    assert (figures.either, figures.neither) == (Share(2, 3), Share(1, 3))


def test_equivalent_mutants_count_in_no_figure() -> None:
    figures = figures_of(ALL, {"a"})
    assert (figures.judged, figures.equivalent, figures.neither) == (3, 1, Share(0, 2))
    assert survivors(ALL, {"a"}) == []


def test_survivors_are_shown_with_who_passed_over_them() -> None:
    (mutant, *_) = mutants_of("log/a.py", "def f(a):\n    return a < 1\n")
    assert survivors(ALL) == [SURVIVED]
    assert survivor_lines(SURVIVED, mutant, ["-a", "+b"]) == [
        "log/a.py:2 log/a.py::f::boundary::0",
        f"  {mutant.digest}; simulator: 3 seeds pass; unit tests: 2 tests pass of 9",
        "    -a",
        "    +b",
    ]


def test_the_last_verdict_of_a_mutant_holds_and_one_of_another_text_stays(tmp_path) -> None:
    results = tmp_path / "results.jsonl"
    assert known(results) == {}
    later = replace(SURVIVED, sim=Side("convicted", "seed 9"))
    changed = replace(SURVIVED, digest="2")
    results.write_text("".join(each.to_json() + "\n" for each in (SURVIVED, changed, later)))
    assert known(results) == {("a", "1"): later, ("a", "2"): changed}


def test_a_sample_is_drawn_by_its_seed_and_a_larger_one_begins_with_it() -> None:
    source = "def f(a, b):\n    return " + " or ".join(f"a < {number}" for number in range(30)) + "\n"
    mutants = mutants_of("log/a.py", source)
    small, large = drawn(mutants, 10, 1), drawn(mutants, 20, 1)
    assert large[:10] == small
    assert drawn(mutants, 10, 2) != small
    without = [each for each in mutants if each != small[0]]
    assert drawn(without, 9, 1) == small[1:]


def test_marks_have_a_reason_and_hold_for_one_text_of_a_function() -> None:
    (mutant,) = mutants_of("log/a.py", "def f(a):\n    return a < 1\n")
    right, wrong = Mark(mutant.id, mutant.digest, "why"), Mark(mutant.id, "other", "why")
    assert parse_marks(f"# a comment\n\n{mutant.id} {mutant.digest}: why\n") == [right]
    assert marked([right], [mutant]) == ({mutant.id}, [])
    assert marked([wrong], [mutant]) == (set(), [wrong])
    with pytest.raises(ValueError, match="line 1"):
        parse_marks(f"{mutant.id} {mutant.digest}\n")


def test_every_marked_mutant_is_one_of_the_product() -> None:
    marks = parse_marks(FILE.read_text())
    files = {mark.id.partition("::")[0] for mark in marks}
    sources = {file: source for file, source in sources_of().items() if file in files}
    ids = {mutant.id for file, source in sources.items() for mutant in mutants_of(file, source)}
    assert {mark.id for mark in marks if "forgotten-field" not in mark.id} <= ids


def test_functions_that_seeds_enter_are_counted() -> None:
    source = "def f():\n    return 1\n\ndef g():\n    return 2\n"
    assert reached_functions({"a.py": source}, [Reach("seed 1", 1.0, {"a.py": 1 << 2})]) == Share(1, 2)
