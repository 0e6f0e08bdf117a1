"""The figures of a sample, the file of results, and the marks of equivalent mutants."""

from __future__ import annotations

import pytest

from .__main__ import arguments, reached_functions
from .coverage import Reach, sources_of
from .equivalent import FILE, Mark, marked, parse_marks
from .figures import Share, figures_of, grouped, survivor_lines, survivors
from .generate import mutants_of
from .page import page
from .record import DUE, Side, Verdict


def verdict(file: str, simulator: Side, unit_tests: Side, operator: str = "boundary") -> Verdict:
    return Verdict(
        file=file,
        function="f",
        line=2,
        operator=operator,
        ordinal=0,
        digest="1",
        change=("-a", "+b"),
        simulator=simulator,
        unit_tests=unit_tests,
        sample=7,
    )


SURVIVED = verdict("log/a.py", Side("survived", ran=3, reached_by=3), Side("cut", ran=2, reached_by=9))
BY_SIM = verdict("log/b.py", Side("convicted", "seed 1", "lost write", "wrong", 1, 4), Side("unreached"), "swap")
BY_UNIT = verdict("rlm/c.py", Side("survived", ran=1, reached_by=1), Side("hung", "test_x", reason="busy"))
UNREACHED = verdict("rlm/d.py", Side("unreached"), Side("unreached"))
AGAIN = verdict("rlm/e.py", DUE, DUE)
ALL = [SURVIVED, BY_SIM, BY_UNIT, UNREACHED, AGAIN]


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
    assert (figures.reached, figures.reached_by_sim) == (Share(3, 4), Share(3, 4))
    assert (figures.sim_of_its_own, figures.sim, figures.unit) == (Share(1, 3), Share(1, 3), Share(1, 3))
    assert (figures.either, figures.neither) == (Share(2, 3), Share(1, 3))


def test_equivalent_mutants_count_in_no_figure() -> None:
    figures = figures_of(ALL, {SURVIVED.id})
    assert (figures.judged, figures.equivalent, figures.neither) == (3, 1, Share(0, 2))
    assert survivors(ALL, {SURVIVED.id}) == []


def test_survivors_are_shown_with_who_passed_over_them() -> None:
    assert survivors(ALL) == [SURVIVED]
    assert survivor_lines(SURVIVED) == [
        "log/a.py:2 log/a.py::f::boundary::0",
        "  1; simulator: 3 seeds pass; unit tests: 2 tests pass of 9",
        "    -a",
        "    +b",
    ]


def test_what_only_the_simulator_was_asked_about_counts_for_it_alone() -> None:
    figures = figures_of([BY_SIM, verdict("log/f.py", BY_SIM.simulator, DUE)])
    assert (figures.judged, figures.either) == (1, Share(1, 1))
    assert (figures.reached_by_sim, figures.sim_of_its_own) == (Share(2, 2), Share(2, 2))


def test_figures_of_groups() -> None:
    assert [(name, each.reached, each.either) for name, each in grouped(ALL, lambda each: each.file[:3])] == [
        ("log", Share(2, 2), Share(1, 2)),
        ("rlm", Share(1, 2), Share(1, 1)),
    ]


def test_a_page_says_how_far_the_sample_is_and_what_survived() -> None:
    text = page(ALL, arguments(["--seed", "7"]), [Mark(UNREACHED.id, "1", "why")])
    assert "**4 of a sample of 400**" in text
    assert "the simulator was\nasked about 4 so far" in text
    assert "| log | 2 of 2: 100% (34% to 100%) | 1 of 2: 50% (9% to 91%) |" in text
    assert "| swap | 1 of 1" in text
    assert "| lost write | 1 |" in text
    assert "log/a.py:2 log/a.py::f::boundary::0" in text
    assert "- `rlm/c.py`, `f`: boundary (line 2), reached by 1 seeds" in text
    assert f"- `{UNREACHED.id}`: why" in text


def test_what_is_of_another_sample_is_not_on_the_page() -> None:
    assert "**0 of a sample of 400**" in page(ALL, arguments(["--seed", "8"]), [])


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
