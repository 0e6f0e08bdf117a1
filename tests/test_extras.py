"""What the extras bring, and what is said without them."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tierfetch.cli.random_uuid import random_uuid
from tierfetch.extras import EXTRAS, MissingExtraError, extra_of, how_to_install, needing
from tierfetch.tests import command_tree, smoke_wheel

ROOT = Path(__file__).resolve().parent.parent
MODULE_NAMES = {
    "confluent_kafka": ["confluent_kafka"],
    "mkdocs_material": ["material"],
    "pyjks": ["jks"],
    "pycryptodomex": ["Cryptodome"],
    "pyspark": ["py4j", "pyspark"],
}
"""Of distributions whose modules are not called as they are."""


def test_the_modules_are_those_of_the_distributions_in_pyproject() -> None:
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for extra, requirements in wanted.items():
        names = [re.split(r"[\[<>=]", requirement)[0].replace("-", "_") for requirement in requirements]
        modules = [module for name in names for module in MODULE_NAMES.get(name, [name])]
        assert sorted(modules) == sorted(EXTRAS[extra]), extra
    assert set(wanted) == set(EXTRAS)


def test_the_wheel_is_tried_with_each_extra() -> None:
    assert set(smoke_wheel.RUNS) == set(EXTRAS)


def test_every_document_names_extras_that_there_are_and_no_index() -> None:
    for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        text = path.read_text()
        assert "tierfetch[" not in text, f"{path}: tierfetch is on no package index"
        assert set(re.findall(r"'\.\[(\w+)\]'", text)) <= set(EXTRAS), path


@pytest.mark.parametrize(
    ("module", "preferred", "extra"),
    [("numpy", "spark", "spark"), ("numpy", "demo", "model"), ("numpy", None, "model"), ("yaml", "spark", None)],
)
def test_the_extra_of_the_command_is_named_first(module: str, preferred: str | None, extra: str | None) -> None:
    assert extra_of(module, preferred) == extra


def test_only_what_an_extra_brings_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    found = r"^matplotlib is not installed; the extra \[spark\] brings it: "
    with pytest.raises(MissingExtraError, match=found) as error, needing("spark"):
        import matplotlib  # noqa: F401
    assert how_to_install("spark") in str(error.value)
    with pytest.raises(ModuleNotFoundError, match="nobody_has") as other, needing("spark"):
        raise ModuleNotFoundError("No module named 'nobody_has'", name="nobody_has")
    assert not isinstance(other.value, MissingExtraError)


@pytest.mark.packaging
@pytest.mark.parametrize("mode", ["help", "runs"])
def test_no_command_needs_an_extra_to_explain_itself_or_ends_in_a_traceback(tmp_path: Path, mode: str) -> None:
    command = [sys.executable, command_tree.__file__, mode, "--without-extras"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.split()[0]) == len(command_tree.commands(runnable=mode == "runs")) > 40


@pytest.mark.parametrize(
    ("arguments", "extra", "module"),
    [
        (["console", "--bootstrap", "127.0.0.1:1", "--port", "0"], "console", "starlette"),
        (["demo", "--size", "64M"], "demo", "confluent_kafka"),
        (["model", "failover", "--cluster", "x", "--broker", "1"], "model", "numpy"),
        (["spark", "audit", "x"], "spark", "pyspark"),
        (["reassign", "plan", "--cluster", "x"], "model", "numpy"),
    ],
)
def test_a_missing_extra_is_one_line(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], extra: str, module: str
) -> None:
    program = f"import sys; sys.modules[{module!r}] = None; from tierfetch.cli.main import main; main({arguments!r})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    (line,) = done.stderr.splitlines()
    assert done.returncode == 1
    assert line == f"Error: {module} is not installed; the extra [{extra}] brings it: {how_to_install(extra)}"


def test_the_walk_sees_what_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(as_json: bool) -> None:
        raise ModuleNotFoundError("No module named 'nobody_has'", name="nobody_has")

    assert command_tree.run_of(["random-uuid"]) is None
    monkeypatch.setattr(random_uuid, "callback", broken)
    assert "nobody_has" in (command_tree.run_of(["random-uuid"]) or "")
    assert "no command 'nothing'" in (command_tree.help_of(["nothing"]) or "")
