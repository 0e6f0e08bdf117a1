"""Build the wheel, install it into fresh environments outside the checkout, and use it there.

    python -m tierfetch.tests.smoke_wheel                  plain, and with each extra but spark (some 400 MB)
    python -m tierfetch.tests.smoke_wheel --extra spark    plain, and with this one

Proves that the package list is whole, that entry points resolve, that nothing is imported from the source tree; that
every command explains itself and ends in a sentence without any extra; and that each extra brings what its commands
need, installed by the very words of `extras.how_to_install`. An extra's environment has the packages of the plain one
by a path file, and on top of them nothing but what the extra brings.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final

from tierfetch.extras import EXTRAS, how_to_install

ROOT = Path(__file__).resolve().parent.parent
TREE: Final = ROOT / "tests" / "command_tree.py"
AT_ONCE: Final = 2
"""The extras that are tried at a time."""
PYTHON_VERSION: Final = f"python{sys.version_info.major}.{sys.version_info.minor}"
SMOKE = """
import importlib.metadata as metadata, sys
from pathlib import Path
import tierfetch
assert Path(sys.argv[1]) not in Path(tierfetch.__file__).parents, tierfetch.__file__
assert Path(tierfetch.__file__).with_name("py.typed").exists(), "type checkers ignore our types without it"
from tierfetch.plugin_registry import KINDS, list_plugins
for kind in KINDS:
    assert {entry.name for entry in metadata.entry_points(group=kind.group)} == set(kind.built_in), kind
assert not [plugin for plugin in list_plugins() if plugin.error is not None]
from tierfetch.remote.storage import RemoteStorageManager
import tierfetch.testing
assert not Path(tierfetch.__file__).with_name("setup.py").exists(), "the script that builds the wheel is in it"
print("wheel", tierfetch.__version__, "works from", Path(tierfetch.__file__).parent)
"""
MISSING: Final = {
    "console": ["console", "--bootstrap", "127.0.0.1:1", "--port", "0"],
    "demo": ["demo"],
    "model": ["model", "replace", "--cluster", str(ROOT / "docs/examples/cluster.yaml"), "--broker", "3"],
    "spark": ["spark", "audit", "."],
}
"""A command of each extra, which names it where it is not installed."""
RUNS: Final[Mapping[str, Sequence[Sequence[str]]]] = {
    "client": [],
    "console": [],
    "demo": [["demo", "--size", "32M", "--policy", "tier-first"]],
    "docs": [],
    "encryption": [],
    "jks": [],
    "model": [
        [*MISSING["model"], "--html", "model.html"],
        ["reassign", "plan", "--cluster", str(ROOT / "docs/examples/cluster.yaml"), "--rebalance"],
    ],
    "spark": [["spark", "sweep", "--clusters", "2", "--html", "sweep.html"]],
    "testing": [],
}
"""What works with it, beyond the modules and commands that are tried with each."""
TESTED: Final = """
def test_a_cluster(tierfetch_cluster):
    tierfetch_cluster.create_topic("orders")
    tierfetch_cluster.produce("orders", b"one")
    assert [record.value for record in tierfetch_cluster.records("orders")] == [b"one"]
"""
"""A newcomer's first test, in an environment that has nothing but the extra [testing]."""

SERVED: Final = """
from types import SimpleNamespace
from tierfetch.console import Pages
from tierfetch.console.routes import HERE, application
from tierfetch.console.server import serve
reader = SimpleNamespace(look=None, offsets=None, group_totals=None, group_lag=None)
application(Pages(reader), hosts=["localhost"], refresh_s=1)
assert {each.name for each in (HERE / "static").iterdir()} == {"console.css", "console.js"}
"""
"""The console's templates, style sheet and script are in the wheel: the application reads them when it is made."""


class Environment:
    """A fresh one below `scratch`, with the wheel; `above`: the one whose packages and pip it uses too."""

    def __init__(self, scratch: Path, name: str, above: Environment | None = None) -> None:
        self.scratch = scratch
        self.name = name
        self.directory = scratch / name
        self._above = above
        venv.create(self.directory, with_pip=above is None)
        if above is not None:
            (self.packages / "plain.pth").write_text(f"{above.packages}\n")

    @property
    def interpreter(self) -> str:
        return str(self.directory / "bin" / "python")

    @property
    def packages(self) -> Path:
        return self.directory / "lib" / PYTHON_VERSION / "site-packages"

    def python(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        command = [self.interpreter, *arguments]
        done = subprocess.run(command, cwd=self.scratch, capture_output=True, text=True, check=False, env=OURS)
        if check and done.returncode:
            raise AssertionError(f"{' '.join(arguments)}: {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done

    def install(self, what: str) -> None:
        options = ["-q", "--no-compile", "--disable-pip-version-check", "-c", str(ROOT / "constraints.txt")]
        installer = self._above or self
        installer.python("-m", "pip", "--python", self.interpreter, "install", *options, what)

    def tierfetch(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self.python("-m", "tierfetch.cli.main", *arguments, check=check)

    def walk(self) -> None:
        """Every command: its help, and a run that ends at once."""
        for mode in ("help", "runs"):
            said(f"{self.name}: {mode} of {self.python('-P', str(TREE), mode).stdout.strip()}")


def said(line: str) -> None:
    print(f"{time.monotonic() - BEGAN_S:5.0f} s  {line}", flush=True)  # noqa: T201


def build(scratch: Path) -> Path:
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(scratch), str(ROOT)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    (wheel,) = scratch.glob("*.whl")
    return wheel


def check_plain(environment: Environment) -> None:
    said(environment.python("-c", SMOKE, str(ROOT)).stdout.strip())
    script = [str(environment.directory / "bin" / "tierfetch"), "--version"]
    subprocess.run(script, check=True, cwd=environment.scratch, stdout=subprocess.DEVNULL)
    environment.walk()
    for extra, command in MISSING.items():
        done = environment.tierfetch(*command, check=False)
        wanted = f"the extra [{extra}] brings it: {how_to_install(extra)}"
        assert done.returncode == 1, done
        assert [wanted in line for line in done.stderr.splitlines()] == [True], done.stderr


def check_extra(plain: Environment, extra: str) -> None:
    environment = Environment(plain.scratch, extra, plain)
    (wheel,) = re.findall(r"'(\./[^']*)'", how_to_install(extra))
    environment.install(wheel)
    said(f"{extra}: installed by pip install '{wheel}'")
    for module in EXTRAS[extra]:
        environment.python("-c", f"import {module}")
    environment.walk()
    for command in RUNS[extra]:
        environment.tierfetch(*command)
        said(f"{extra}: tierfetch {' '.join(command)}")
    if extra == "console":
        environment.python("-c", SERVED)
        said("console: it has its files")
    if extra == "testing":
        (environment.scratch / "test_first.py").write_text(TESTED)
        environment.python("-m", "pytest", "-q", "test_first.py")
        said("testing: a test has a cluster")


def main(arguments: Sequence[str]) -> int:
    extras = [arguments[1]] if arguments else sorted(set(EXTRAS) - {"spark"})
    with tempfile.TemporaryDirectory() as directory:
        scratch = Path(directory)
        wheel = build(scratch)
        plain = Environment(scratch, "plain")
        plain.install(f"./{wheel.name}")
        check_plain(plain)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(partial(check_extra, plain), extras))  # raises the error of one
    return 0


BEGAN_S: Final = time.monotonic()
OURS: Final = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
"""CI's own options for pytest are not those of a test within."""

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
