"""The list of functions that no seed runs is of these sources; and how it is made."""

from __future__ import annotations

from tierfetch.tests.sim.mutants.coverage import Reach, sources_of
from tierfetch.tests.sim.mutants.never_run import PAGE, functions_of, listed, never_run, page

SOURCE = '''"""A module."""
def outer(a):
    """What it does."""
    def inner():
        return 1
    return inner

class Port:
    async def abstract(self): ...
    async def method(self):
        if self:
            pass
'''
SOURCES = {"log/a.py": SOURCE, "rlm/b.py": "def never():\n    return 2\n"}
REMEDY = "write the list again: python -m tierfetch.tests.sim.mutants.never_run"


DRIFT_MAX = 0.05


def test_the_list_is_of_about_as_many_functions_as_there_are() -> None:
    total, _ = listed(PAGE.read_text())
    now = sum(len(functions_of(source)) for source in sources_of().values())
    assert abs(now - total) <= DRIFT_MAX * now, REMEDY


def test_every_function_of_the_list_exists() -> None:
    sources, (_, modules) = sources_of(), listed(PAGE.read_text())
    assert len(modules) > 20
    known = {path: {each.name for each in functions_of(source)} for path, source in sources.items()}
    gone = {path: sorted(set(names) - known.get(path, set())) for path, names in modules.items()}
    assert {path: names for path, names in gone.items() if names} == {}, REMEDY


def test_a_function_is_its_body_without_its_definition() -> None:
    assert [(each.name, sorted(each.lines)) for each in functions_of(SOURCE)] == [
        ("outer", [4, 6]),
        ("outer.inner", [5]),
        ("Port.method", [11, 12]),
    ]


def test_a_function_of_which_no_line_ran_is_listed_and_read_back() -> None:
    missing = never_run(SOURCES, [Reach("seed 1", 1.0, {"log/a.py": 1 << 6}), Reach("seed 2", 1.0, {})])
    assert missing == {"log/a.py": ["outer.inner", "Port.method"], "rlm/b.py": ["never"]}
    text = page(SOURCES, missing, 2)
    assert "Of 4 functions" in text
    assert "3 (75%) are run by none of the seeds 1 to 2" in text
    assert listed(text) == (4, missing)
