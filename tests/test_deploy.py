"""`deploy/`: what it names exists, nodes read their files without a warning, and the tools of each format accept it."""

from __future__ import annotations

import json
import re
import runpy
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tierfetch.broker.config import load_broker_config
from tierfetch.quorum import load_controller_config

ROOT = Path(__file__).resolve().parents[1]
DEPLOY = ROOT / "deploy"
METRICS = (DEPLOY / "prometheus/alerts.yml", DEPLOY / "prometheus/alerts_test.yml", DEPLOY / "grafana/board.json")
METRIC = re.compile(r"tierfetch_[a-z_]+")


def documented_metrics() -> set[str]:
    """Return the names in docs/metrics.md, and those of docs/quorum.md, which leaves out their prefix."""
    names = set(METRIC.findall((ROOT / "docs/metrics.md").read_text()))
    section = (ROOT / "docs/quorum.md").read_text().partition("## Metrics")[2].partition("\n## ")[0]
    for row in section.splitlines():
        if row.startswith("| `"):
            names |= {f"tierfetch_raft_{name}" for name in re.findall(r"`([a-z_]+)", row.split("|")[1])}
    return names


@pytest.mark.parametrize("path", METRICS, ids=lambda path: path.name)
def test_every_metric_is_documented(path: Path) -> None:
    used = {re.sub(r"_(bucket|count|sum)$", "", name) for name in METRIC.findall(path.read_text())}
    assert len(used) > 5
    assert used - documented_metrics() == set()


def test_every_section_that_an_alert_names_is_on_the_page_of_operations() -> None:
    sections = set(re.findall(r"^## (.+)$", (ROOT / "docs/operations.md").read_text(), re.MULTILINE))
    named = set(re.findall(r'See "([^"]+)"', (DEPLOY / "prometheus/alerts.yml").read_text()))
    assert named
    assert named - sections == set()


def test_the_board_is_the_one_that_its_script_writes() -> None:
    script = runpy.run_path(str(DEPLOY / "grafana/build_board.py"))
    assert (DEPLOY / "grafana/board.json").read_text() == script["text"]()


def test_panels_do_not_overlap() -> None:
    panels = json.loads((DEPLOY / "grafana/board.json").read_text())["panels"]
    taken = [
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(taken) == len(set(taken))


def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return loaded


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_broker_of_the_compose_file(number: int) -> None:
    config, warnings = load_broker_config(DEPLOY / f"config/broker-{number}.properties")
    assert warnings == []
    service = compose()["services"][f"broker-{number}"]
    assert f"./config/broker-{number}.properties:/etc/tierfetch/node.properties:ro" in service["volumes"]
    external = next(one for one in config.listeners if one.name == "EXTERNAL")
    assert service["ports"] == [f"127.0.0.1:{external.port}:{external.port}"]


@pytest.mark.parametrize("number", [101, 102, 103])
def test_a_controller_of_the_compose_file(number: int) -> None:
    config, warnings = load_controller_config(DEPLOY / f"config/controller-{number}.properties")
    assert warnings == []
    assert config.node_id == number
    assert f"controller-{number}" in compose()["services"]


def test_prometheus_scrapes_every_node_where_its_file_says() -> None:
    scraped = yaml.safe_load((DEPLOY / "prometheus/prometheus.yml").read_text())["scrape_configs"]
    targets = {target for job in scraped for each in job["static_configs"] for target in each["targets"]}
    nodes = {name for name in compose()["services"] if name.startswith(("broker-", "controller-"))}
    ports = {
        path.stem: re.findall(r"^metrics.port=(\d+)$", path.read_text(), re.MULTILINE)
        for path in (DEPLOY / "config").glob("*.properties")
    }
    assert targets == {f"{name}:{ports[name][0]}" for name in nodes}


def accepts(*command: str, tool: str) -> None:
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")
    ended = subprocess.run(command, cwd=DEPLOY, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_promtool_accepts_the_configuration() -> None:
    accepts("promtool", "check", "config", "prometheus/prometheus.yml", tool="promtool")


def test_each_alert_fires_where_it_should() -> None:
    accepts("promtool", "test", "rules", "prometheus/alerts_test.yml", tool="promtool")


@pytest.mark.parametrize("unit", ["tierfetch-broker.service", "tierfetch-controller.service"])
def test_systemd_accepts_the_unit(unit: str, tmp_path: Path) -> None:
    """systemd-analyze refuses a command that is not there: the test's copy names one that is."""
    text = (
        (DEPLOY / "systemd" / unit).read_text().replace("/opt/tierfetch/venv/bin/tierfetch", shutil.which("true") or "")
    )
    (tmp_path / unit).write_text(text)
    accepts("systemd-analyze", "verify", str(tmp_path / unit), tool="systemd-analyze")


def test_the_container_runs_as_a_user_without_rights() -> None:
    lines = (DEPLOY / "Containerfile").read_text().splitlines()
    assert "USER tierfetch" in lines
    assert lines.index("USER tierfetch") < next(n for n, line in enumerate(lines) if line.startswith("ENTRYPOINT"))
