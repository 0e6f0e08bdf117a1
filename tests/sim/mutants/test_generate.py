"""The generator of mutants: each operator at an example, every mutant compiles, ids stay."""

from __future__ import annotations

import ast
from collections import Counter
from random import Random
from textwrap import dedent, indent

import pytest

from .coverage import FOLDERS, sources_of
from .generate import Mutant, diff_of, fields_with_defaults, mutants_of, mutated, statement_lines
from .operators import OPERATORS

EXAMPLES: dict[str, list[tuple[str, list[str]]]] = {
    "boundary": [
        ("return a < b", ["-return a < b", "+return a <= b"]),
        ("return a >= b", ["-return a >= b", "+return a > b"]),
    ],
    "compare": [("return a == b", ["-return a == b", "+return a != b"]), ("if a is b:\n    pass", [])],
    "off-by-one": [("return a + 1", ["-return a + 1", "+return a"]), ("return a + 2", [])],
    "min-max": [("return min(a, b)", ["-return min(a, b)", "+return max(a, b)"])],
    "boolean": [("return True", ["-return True", "+return False"]), ("while True:\n    pass", [])],
    "negate": [
        ("if a:\n    b()", ["-if a:", "+if not a:"]),
        ("while not a:\n    b()", ["-while not a:", "+while a:"]),
        ("return [x for x in a if x]", ["-return [x for x in a if x]", "+return [x for x in a if not x]"]),
    ],
    "half-condition": [("return a and b", ["-return a and b", "+return b", "-return a and b", "+return a"])],
    "drop-call": [("a.note(b)", ["-a.note(b)", "+pass"]), ("logger.info(b)", [])],
    "drop-await": [("await a.wait(b)", ["-await a.wait(b)", "+pass"])],
    "drop-sync": [("await a.flush()", ["-await a.flush()", "+pass"]), ("a.fsync(b)", ["-a.fsync(b)", "+pass"])],
    "not-awaited": [
        ("await a(b)", ["-await a(b)", "+__import__('asyncio').ensure_future(a(b))"]),
        ("await sleep(a)", []),
    ],
    "drop-assignment": [("a.x = b", ["-a.x = b", "+pass"]), ("a += b", ["-a += b", "+pass"]), ("c = b", [])],
    "drop-exit": [("if a:\n    return", ["-    return", "+    pass"]), ("return a", [])],
    "drop-raise": [("raise ValueError(a)", ["-raise ValueError(a)", "+pass"])],
    "drop-finally": [
        ("try:\n    a()\nfinally:\n    b()\n    a()", ["-    b()", "-    a()", "+    pass"]),
        ("try:\n    a()\nfinally:\n    b()", []),
    ],
    "swallow": [
        ("try:\n    a()\nexcept OSError:\n    b()\n    raise", ["-    b()", "-    raise", "+    pass"]),
        ("try:\n    a()\nexcept OSError:\n    b()", []),
    ],
    "swap": [
        ("a.x = b\nc(a)", ["+c(a)", "-c(a)"]),
        ("c = b\nd(a)", []),
        ("a.x = b\na.y = int(c)", []),
        ("a.x = b\na.y = a.x", ["+a.y = a.x", "-a.y = a.x"]),
    ],
    "stale-local": [("a = b", ["-a = b", "+pass"]), ("c = b", [])],
    "stale-attribute": [
        ("await a()\nreturn self.x", ["+_stale_value = self.x", "-return self.x", "+return _stale_value"])
    ],
    "forgotten-field": [
        ("return replace(a, x=b)", ["-return replace(a, x=b)", "+return replace(a)"]),
        ("return Known(x=a, y=b)", ["-return Known(x=a, y=b)", "+return Known(x=a)"]),
    ],
    "no-lock": [("async with a.flush_lock:\n    b()", ["-async with a.flush_lock:", "-    b()", "+b()"])],
    "no-deadline": [("async with timeout(a):\n    b()", ["-async with timeout(a):", "-    b()", "+b()"])],
}
CLASSES = """
class Known:
    x: int
    y: int = 0
"""


def function(body: str) -> str:
    return CLASSES + "async def f(self, a, b):\n" + indent(body, "    ") + "\n"


def changes(source: str, operator: str) -> list[str]:
    """Return the changed lines of all mutants by one operator."""
    defaults = fields_with_defaults({"file.py": ast.parse(source)})
    lines: list[str] = []
    for mutant in mutants_of("file.py", source, defaults):
        if mutant.operator == operator:
            diff = diff_of(source, mutant, defaults)
            lines += [line[0] + line[5:] for line in diff if line[0] in "+-"]
    return lines


@pytest.mark.parametrize("operator", OPERATORS)
def test_each_operator_has_an_example(operator: str) -> None:
    for body, expected in EXAMPLES[operator]:
        assert changes(function(body), operator) == expected, body


def test_no_two_mutants_of_the_examples_are_the_same() -> None:
    for examples in EXAMPLES.values():
        for body, _ in examples:
            source = function(body)
            defaults = fields_with_defaults({"file.py": ast.parse(source)})
            made = [ast.dump(mutated(source, each, defaults)) for each in mutants_of("file.py", source, defaults)]
            assert len(made) == len(set(made)), body
            assert ast.dump(ast.parse(source)) not in made


def every_mutant() -> tuple[dict[str, str], dict[str, set[str]], list[Mutant]]:
    sources = sources_of()
    defaults = fields_with_defaults({file: ast.parse(source) for file, source in sources.items()})
    return sources, defaults, [each for file, source in sources.items() for each in mutants_of(file, source, defaults)]


def test_the_product_has_thousands_of_mutants_with_ids_of_their_own_and_they_compile() -> None:
    sources, defaults, mutants = every_mutant()
    assert len(mutants) > 10_000
    assert len({each.id for each in mutants}) == len(mutants)
    assert {each.operator for each in mutants} == set(OPERATORS)
    assert {each.file.partition("/")[0] for each in mutants} == set(FOLDERS)
    lines = {file: statement_lines(source) for file, source in sources.items()}
    assert all(each.statement_line in lines[each.file][each.function] for each in mutants)
    for mutant in Random(7).sample(mutants, 150):
        compile(mutated(sources[mutant.file], mutant, defaults), mutant.file, "exec")


def test_every_mutant_of_a_file_compiles_and_differs_from_it() -> None:
    file = "log/replica/flusher.py"
    source = sources_of(("log/replica",))[file]
    for mutant in mutants_of(file, source):
        compile(mutated(source, mutant), file, "exec")
        assert diff_of(source, mutant), mutant.id


BEFORE = """
class A:
    def f(self, a):
        if a < 1:
            self.b(a)
        return a + 1

def g(a):
    return a == 2
"""
EDITED_ELSEWHERE = '''
"""A docstring, another function, comments: nothing that the others do."""

def new(a):
    return a < 3 or a > 4

class A:
    def before(self):
        self.a = 1

    def f(self, a):
        # a comment
        if a < 1:

            self.b(
                a
            )
        return a + 1

def g(a):
    return a == 2
'''


def test_ids_and_digests_survive_edits_elsewhere() -> None:
    before = {(each.id, each.digest) for each in mutants_of("file.py", BEFORE)}
    after = {(each.id, each.digest) for each in mutants_of("file.py", EDITED_ELSEWHERE)}
    assert before
    assert before < after


def test_a_digest_changes_with_its_function() -> None:
    before = {each.id: each.digest for each in mutants_of("file.py", BEFORE)}
    after = {each.id: each.digest for each in mutants_of("file.py", BEFORE.replace("return a + 1", "return a + 1 + 0"))}
    assert before["file.py::A.f::boundary::0"] != after["file.py::A.f::boundary::0"]
    assert before["file.py::g::compare::0"] == after["file.py::g::compare::0"]


def test_a_mutant_that_is_gone_is_not_made() -> None:
    (mutant,) = [each for each in mutants_of("file.py", BEFORE) if each.operator == "compare"]
    with pytest.raises(LookupError, match="no longer there"):
        mutated(BEFORE.replace("a == 2", "a"), mutant)


def test_what_nobody_would_call_a_defect_is_left_out() -> None:
    source = dedent('''
        def f(a: int = 1 + 1) -> None:
            """A docstring."""
            assert a < 2
            logger.info("a == %s", a)
            self._logger.warning("a")

        class A:
            size = 1 + 1

            def __repr__(self):
                return f"{self.a + 1}"
    ''')
    assert Counter(each.operator for each in mutants_of("file.py", source)) == Counter()
