"""README's three times ten minutes are walked as they stand there, but for ports and the environment of pip."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tierfetch.tests.process.test_cluster_command import free_range
from tierfetch.tests.process.test_tutorial import NODES, Reader, reader, serving

pytestmark = [pytest.mark.plaintext, pytest.mark.timeout(300)]
README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
WALK = README.partition("## Three times ten minutes")[2].partition("\n## ")[0]
CLUSTER, TEST, POLICY = re.split(r"^\*\*A ", WALK, flags=re.MULTILINE)[1:]
FILE = re.compile(r"`([a-z_]+\.(?:py|toml))`:\n\n```(?:python|toml)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMANDS = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def save(folder: Path, text: str) -> list[str]:
    """Write the files that the text shows; return their names."""
    found = FILE.findall(text)
    for name, content in found:
        (folder / name).write_text(content)
    return [name for name, _ in found]


def walk(someone: Reader, lines: list[str]) -> str:
    """Type each line; return all that was said."""
    first_port, said = free_range(2 * NODES), ""
    for line in lines:
        until = serving(line)
        if until is None:
            said += someone.types(line)
            continue
        someone.serves(line + (f" --port {first_port}" if "cluster up" in line else ""), until)
    return said


def test_a_cluster_a_tiered_topic_a_broker_replaced(tmp_path: Path) -> None:
    with reader(tmp_path) as someone:
        said = walk(someone, "".join(COMMANDS.findall(CLUSTER)).splitlines())
    assert "100000 records to orders" in said
    assert "finished segments" in said
    assert "replicas are in sync" in said
    assert said.splitlines()[-1] == "100000"


def pytest_below(someone: Reader) -> None:
    script = someone.folder / "bin" / "pytest"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m pytest -q -p no:cacheprovider "$@"\n')
    script.chmod(0o700)


def test_a_test_of_an_application(tmp_path: Path) -> None:
    assert save(tmp_path, TEST) == ["test_orders.py"]
    with reader(tmp_path) as someone:
        pytest_below(someone)
        assert "1 passed" in someone.types("pytest test_orders.py")
    assert "`pytest test_orders.py`" in TEST


def test_a_policy(tmp_path: Path) -> None:
    assert save(tmp_path, POLICY) == ["whole_if_small.py", "pyproject.toml", "test_policy.py"]
    install, *lines = "".join(COMMANDS.findall(POLICY)).splitlines()
    assert install == "pip install -e ."
    site = tmp_path / "site"
    with reader(tmp_path) as someone:
        pytest_below(someone)
        pip = f"{sys.executable} -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation"
        someone.types(f"{pip} --target {site} .")
        someone.environment["PYTHONPATH"] = str(site)
        said = walk(someone, lines)
    assert "bootstrap.whole.if.small.records.max" in said
    assert re.search(r"\d+ passed", said)
    assert "failed" not in said
