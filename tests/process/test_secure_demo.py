"""`tierfetch demo --secure`, small: every kind of connection of it is encrypted and authenticated."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.secured, pytest.mark.timeout(240)]
COMMAND = (sys.executable, "-m", "tierfetch.cli.main", "demo", "--secure", "--size", "32M")


def test_the_demo_on_a_secured_cluster(tmp_path: Path) -> None:
    kept, report = tmp_path / "kept", tmp_path / "report.json"
    outputs = ("--json", str(report), "--html", str(tmp_path / "report.html"))
    done = subprocess.run(
        [*COMMAND, "--policy", "earliest-pending-upload", "--keep", str(kept), *outputs],
        capture_output=True,
        text=True,
        timeout=220,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert [policy["identical"] for policy in json.loads(report.read_text())["policies"]] == [True]
    for name in ("broker-1", "broker-2", "controller-101"):
        properties = (kept / f"{name}.properties").read_text()
        assert "PLAINTEXT" not in properties
        assert "authorizer.class.name=" in properties
    assert (kept / "secrets").stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o077 for path in (kept / "secrets").glob("*.p*") if path.name != "ca.pem"} == {0}
