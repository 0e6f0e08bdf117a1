"""What a run of pytest left: its JUnit XML, read into counts and node ids."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

REASON_MAX: Final = 200


@dataclass(frozen=True)
class Report:
    """Test ids by how they ended. Each test is in one of the three, under the worst of its phases."""

    passed: frozenset[str]
    failed: dict[str, str]
    """With the first line of the reason, cut to `REASON_MAX` characters."""
    skipped: dict[str, str]
    """With the reason."""


def read_report(path: Path, is_file: Callable[[str], bool]) -> Report | None:
    """Return the report in `path`, None if there is none or it is cut short. `is_file` is asked of paths of modules."""
    try:
        root = ElementTree.parse(path).getroot()
    except (OSError, ElementTree.ParseError):
        return None
    ended: set[str] = set()
    failed: dict[str, str] = {}
    skipped: dict[str, str] = {}
    for case in root.iter("testcase"):
        test = node_id(case.get("classname", ""), case.get("name", ""), is_file)
        skip = case.find("skipped")
        found = [each for each in case if each.tag in ("failure", "error")]
        if found:
            failed.setdefault(test, _first_line(found[0].get("message", "")))
        elif skip is not None and skip.get("type") != "pytest.xfail":
            skipped[test] = skip.get("message", "")
        else:
            ended.add(test)
    skipped = {test: reason for test, reason in skipped.items() if test not in failed}
    return Report(frozenset(ended - failed.keys() - skipped.keys()), failed, skipped)


def _first_line(message: str) -> str:
    return next(iter(message.splitlines()), "")[:REASON_MAX]


def node_id(class_name: str, name: str, is_file: Callable[[str], bool]) -> str:
    """Return the id by which pytest runs a test again: `tests/log/test_index.py::TestLookup::test_empty[3]`.

    JUnit's class name is the module and the classes, joined by dots: the module is the longest part that is a file. The
    file that JUnit names is another one where the test is inherited. What is no test of a file, such as a module that
    could not be collected, keeps its name.
    """
    parts = class_name.split(".")
    for length in range(len(parts), 0, -1):
        path = "/".join(parts[:length]) + ".py"
        if is_file(path):
            return "::".join((path, *parts[length:], name))
    return f"{class_name}::{name}".removeprefix("::")
