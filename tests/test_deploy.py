"""`deploy/`: what it names exists, nodes read their files without a warning, and the tools of each format accept it."""

from __future__ import annotations

import copy
import io
import json
import re
import runpy
import shutil
import subprocess
import tomllib
from pathlib import Path, PurePath
from typing import Annotated, Any, Literal, NamedTuple, Self

import pytest
import yaml
from dockerfile_parse import DockerfileParser
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    field_validator,
    model_validator,
)

from tierfetch.broker.config import load_broker_config
from tierfetch.quorum import load_controller_config
from tierfetch.tests.command_tree import command_of

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


Duration = Annotated[str, StringConstraints(pattern=r"^\d+(us|ms|s|m|h)$")]
Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]*$")]
Mount = Annotated[str, StringConstraints(pattern=r"^(\.[\w./-]*|[a-z0-9][\w.-]*):/[\w./-]+(:ro)?$")]
Port = Annotated[str, StringConstraints(pattern=r"^(\d+\.){3}\d+:\d+:\d+$")]


class Strict(BaseModel):
    """A part of a compose file: the keys of the Compose Specification that ours uses, and no others."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Build(Strict):
    context: str
    dockerfile: str


class HealthCheck(Strict):
    test: list[str] = Field(min_length=2)
    interval: Duration
    start_period: Duration

    @field_validator("test")
    @classmethod
    def _begins_with_its_kind(cls, test: list[str]) -> list[str]:
        if test[0] not in ("CMD", "CMD-SHELL") or (test[0] == "CMD-SHELL" and len(test) != 2):
            raise ValueError("a list begins with CMD, or is CMD-SHELL and one string")
        return test


class Service(Strict):
    image: str
    build: Build | None = None
    restart: Literal["no", "always", "on-failure", "unless-stopped"] = "no"
    stop_grace_period: Duration = "10s"
    healthcheck: HealthCheck | None = None
    entrypoint: list[str] = []
    command: list[str] = []
    environment: dict[str, str] = {}  # YAML's true and 1 are none: each is quoted
    depends_on: list[Name] = []
    volumes: list[Mount] = []
    ports: list[Port] = []


class Compose(BaseModel):
    """Keys that begin with x- are ours; all others are the specification's."""

    model_config = ConfigDict(extra="allow", strict=True)

    name: Name
    services: dict[Name, Service]
    volumes: dict[Name, None]

    @model_validator(mode="after")
    def _has_no_other_key(self) -> Self:
        others = [key for key in self.model_extra or {} if not key.startswith("x-")]
        if others:
            raise ValueError(f"unknown: {others}")
        return self


def test_the_compose_file_has_the_form_of_the_specification() -> None:
    Compose.model_validate(compose())


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("volume",), {}),
        (("services", "broker-1", "port"), []),
        (("services", "broker-1", "ports"), [9092]),
        (("services", "broker-1", "stop_grace_period"), 60),
        (("services", "broker-1", "volumes"), ["tier"]),
        (("services", "broker-1", "healthcheck", "test"), ["python"]),
        (("services", "grafana", "environment", "GF_AUTH_ANONYMOUS_ENABLED"), True),
        (("services", "Broker"), {"image": "tierfetch"}),
    ],
)
def test_what_the_specification_refuses_is_found(path: tuple[str, ...], value: object) -> None:
    document: dict[str, Any] = copy.deepcopy(compose())  # its services share parts
    part = document
    for name in path[:-1]:
        part = part[name]
    part[path[-1]] = value
    with pytest.raises(ValidationError):
        Compose.model_validate(document)


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


class Instruction(NamedTuple):
    """One of the Containerfile; `stage` counts from 0."""

    stage: int
    name: str
    value: str


def containerfile() -> list[Instruction]:
    parser = DockerfileParser(fileobj=io.BytesIO((DEPLOY / "Containerfile").read_bytes()))
    found: list[Instruction] = []
    stage = -1
    for each in parser.structure:
        if each["instruction"] != "COMMENT":
            stage += each["instruction"] == "FROM"
            found.append(Instruction(stage, each["instruction"], each["value"]))
    return found


def values(name: str) -> list[str]:
    """Return the values of the instructions of this name in the last stage."""
    found = containerfile()
    return [each.value for each in found if each.name == name and each.stage == found[-1].stage]


def test_the_containerfile_has_instructions_that_oci_builders_know() -> None:
    """HEALTHCHECK is Docker's alone, and ADD fetches and unpacks: neither is used."""
    allowed = {"FROM", "WORKDIR", "COPY", "RUN", "USER", "VOLUME", "EXPOSE", "STOPSIGNAL", "ENTRYPOINT", "CMD"}
    found = containerfile()
    assert {each.name for each in found} == allowed
    assert found[0].name == "FROM"


def test_each_stage_begins_with_a_python_that_the_package_supports() -> None:
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    bases = [each.value for each in containerfile() if each.name == "FROM"]
    for base in bases:
        version = re.fullmatch(r"docker\.io/library/python:(3\.\d+)-slim( AS \w+)?", base)
        assert version is not None, base
        assert f"Programming Language :: Python :: {version[1]}" in classifiers


def ignored(name: str) -> bool:
    """Return whether a file of the checkout is kept out of the build."""
    patterns = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if not line.startswith("#")]
    return any(
        PurePath(parent).match(pattern.removeprefix("**/"))
        for pattern in patterns
        for parent in (name, *map(str, PurePath(name).parents))
    )


def test_what_is_copied_is_there() -> None:
    stages = [
        each.value.rpartition(" AS ")[2] for each in containerfile() if each.name == "FROM" and " AS " in each.value
    ]
    for each in containerfile():
        if each.name != "COPY":
            continue
        *sources, _ = each.value.split()
        if sources[0].startswith("--from="):
            assert stages.index(sources[0].removeprefix("--from=")) < each.stage
            continue
        for source in sources:
            assert (ROOT / source).exists()
            assert not ignored(source)


def test_the_build_gets_all_that_is_committed_and_nothing_that_git_ignores() -> None:
    committed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    assert [name for name in committed if ignored(name)] == []
    left_out = [line.strip("/") for line in (ROOT / ".gitignore").read_text().splitlines()]
    assert [name for name in [".git", *left_out] if not ignored(f"{name.replace('*', 'x')}/x")] == []


def test_the_container_runs_as_a_user_without_rights() -> None:
    names = [each.name for each in containerfile() if each.stage == 1]
    assert values("USER") == ["tierfetch"]
    assert names.index("USER") < names.index("ENTRYPOINT")
    assert "RUN" not in names[names.index("USER") :], "what is installed is root's"
    (run,) = values("RUN")
    assert re.search(r"useradd --system --uid \d{4,} ", run)


def test_its_volumes_are_the_users_and_where_the_nodes_write() -> None:
    (volumes,) = [set(json.loads(value)) for value in values("VOLUME")]
    (run,) = values("RUN")
    made = re.search(r"install -d -o tierfetch -g tierfetch (.+)$", run)
    assert made is not None
    assert set(made[1].split()) == volumes
    written = re.findall(
        r"^(?:log\.dirs|rsm\.config\.dir)=(.+)$",
        "\n".join(path.read_text() for path in (DEPLOY / "config").glob("*.properties")),
        re.MULTILINE,
    )
    assert set(written) == volumes


def test_its_ports_are_those_of_the_nodes() -> None:
    (exposed,) = [set(map(int, value.split())) for value in values("EXPOSE")]
    broker, _ = load_broker_config(DEPLOY / "config/broker-1.properties")
    controller, _ = load_controller_config(DEPLOY / "config/controller-101.properties")
    external = next(one.port for one in broker.listeners if one.name == "EXTERNAL")
    assert exposed == {external, controller.listeners[0].port, broker.metrics_port}
    assert controller.metrics_port == broker.metrics_port


def check_command(words: list[str]) -> None:
    """Assert that the command exists and has the options."""
    command, options = words[: next(n for n, word in enumerate(words) if word.startswith("--"))], words[1:]
    known = {option for parameter in command_of(command).params for option in parameter.opts}
    assert {option for option in options if option.startswith("--")} <= known


def test_it_starts_a_broker() -> None:
    assert values("ENTRYPOINT") == ['["tierfetch"]']
    (command,) = map(json.loads, values("CMD"))
    check_command(command)


def test_the_commands_of_the_compose_file_exist() -> None:
    services = compose()["services"]
    for name, service in services.items():
        if name.startswith("broker-"):
            check_command(service["command"])
        if name.startswith("controller-"):
            script = service["entrypoint"][-1]
            lines = re.findall(r"^(?:exec )?tierfetch (.+)$", script, re.MULTILINE)
            assert len(lines) == 2
            for line in lines:
                check_command(line.split())


def test_what_the_compose_file_mounts_and_waits_for_is_there() -> None:
    document = compose()
    for service in document["services"].values():
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            assert (DEPLOY / source).exists() if source.startswith(".") else source in document["volumes"], volume
        assert set(service.get("depends_on", ())) <= set(document["services"])
    mounted = {v.partition(":")[0] for each in document["services"].values() for v in each.get("volumes", ())}
    assert set(document["volumes"]) <= mounted


def test_the_compose_file_listens_on_loopback_alone_and_pins_its_images() -> None:
    for service in compose()["services"].values():
        assert all(str(port).startswith("127.0.0.1:") for port in service.get("ports", ()))
        if "build" not in service:
            assert re.search(r":v?\d+\.\d+\.\d+$", service["image"])


def test_every_node_of_the_compose_file_says_whether_it_is_ready() -> None:
    for name, service in compose()["services"].items():
        if "build" in service:
            path = next(DEPLOY.glob(f"config/{name}.properties"))
            (port,) = re.findall(r"^metrics.port=(\d+)$", path.read_text(), re.MULTILINE)
            assert f"http://127.0.0.1:{port}/ready" in service["healthcheck"]["test"][-1]
            compile(service["healthcheck"]["test"][-1], "healthcheck", "exec")


def test_docker_accepts_the_compose_file() -> None:
    command = ["docker", "compose", "version"]
    if shutil.which("docker") is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("docker compose is not installed")
    accepts("docker", "compose", "-f", "compose.yaml", "config", "--quiet", tool="docker")
