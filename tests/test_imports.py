"""What a start imports, for all of it is paid before the first request is served (docs/benchmarks.md, Start).

A name that is missing here has to be worth its time: `python -X importtime` shows it. What a node needs later on it
imports before it serves, for an import on the event loop is a pause (`tests/security/test_imports.py`).
"""

from __future__ import annotations

import subprocess
import sys

import pytest

PACKAGES = {
    "annotated_types",
    "cramjam",
    "crc32c",
    "h11",
    "javaproperties",
    "kio",
    "lz4",
    "prometheus_client",
    "pydantic",
    "pydantic_core",
    "re2",
    "snappy",
    "tierfetch",
    "typing_extensions",
    "typing_inspection",
    "zstandard",
}
FOLDERS = {"broker", "controller", "fetcher", "log", "protocol", "quorum", "remote", "rlm", "security"}
MODULES = {"doors", "errors", "light_dataclass", "limited_log", "plugin_options", "plugin_registry"}
HEADERS = {"errors", "index", "request_header", "response_header", "types"}
"""The schemas of kio that all messages need."""
REGISTRATION = {"api_versions", "broker_heartbeat", "broker_registration", "describe_cluster", "leader_change_message"}
"""Those of the messages that a broker and a controller exchange until the broker serves."""

CLUSTER = """
from tierfetch.testing import InProcessCluster
with InProcessCluster():
"""
SERVER = """
from tierfetch.cli.main import cli, main
sys.modules["hypothesis"] = None
cli.get_command(None, "server")
if True:
"""
FOUND = """
    found = {name for name in set(sys.modules) - before if sys.modules[name] is not None}
    outer = {name.split(".")[0] for name in found} - set(sys.stdlib_module_names)
    print("packages", *(name for name in outer if not name.startswith("_")))
    print("ours", *{name.split(".")[1] for name in found if name.startswith("tierfetch.")})
    print("schemas", *{name.split(".")[2] for name in found if name.startswith("kio.schema.")})
"""


@pytest.mark.parametrize(
    ("program", "packages", "ours", "schemas"),
    [
        (CLUSTER, {"aiofiles"}, {"plugins", "testing"}, HEADERS | REGISTRATION),
        (SERVER, {"click"}, {"cli", "extras"}, HEADERS),
    ],
    ids=["cluster", "server"],
)
def test_a_start_imports_nothing_that_it_does_not_use(
    program: str, packages: set[str], ours: set[str], schemas: set[str]
) -> None:
    code = f"import sys; before = set(sys.modules)\n{program}{FOUND}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    found = {line.split()[0]: set(line.split()[1:]) for line in done.stdout.splitlines()}
    assert found["packages"] - packages - PACKAGES == set()
    assert found["ours"] - ours - FOLDERS - MODULES == set()
    assert found["schemas"] - schemas == set()
    assert "tierfetch" in found["packages"]
