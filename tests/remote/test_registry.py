"""Plugins by entry point: found, configured, and told what is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tierfetch.plugin_registry import REMOTE_LOG_METADATA, REMOTE_STORAGE, installed_plugins
from tierfetch.remote.metadata_topic import RemoteLogMetadataContext
from tierfetch.remote.registry import (
    PluginError,
    load_remote_log_metadata,
    load_remote_storage,
)
from tierfetch.remote.topic_manager import TopicBasedRemoteLogMetadataManager
from tierfetch.tests.fakes.metadata_topic import FakeMetadataTopic, MetadataLog

SOURCE = """
from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

class Config(BaseModel):
    model_config = ConfigDict(extra="forbid", alias_generator=lambda name: name.replace("_", "."))
    size_bytes: int = 5
    access_key: SecretStr = Field(min_length=8)
    tokens: dict[str, SecretStr] = {}
    zones: list[str] = []

    @field_validator("access_key")
    @classmethod
    def chatty(cls, value):
        if "bad" in value.get_secret_value():
            raise ValueError(f"{value.get_secret_value()} is bad")
        return value

class Plugin:
    Config = Config
    def __init__(self, config):
        self.config = config

class Bare:
    pass
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Put a distribution with one storage plugin on the path."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "thirdparty_tier.py").write_text(SOURCE)
    (tmp_path / "thirdparty_broken.py").write_text("import a_module_that_nobody_has")

    def install_distribution(distribution: str, name: str, target: str) -> None:
        info = tmp_path / f"{distribution}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[{REMOTE_STORAGE.group}]\n{name} = {target}\n")

    return install_distribution


def problems_of(config: dict[str, str]) -> list[str]:
    with pytest.raises(PluginError) as caught:
        load_remote_storage("thirdparty", config)
    assert caught.value.__context__ is None
    first, *problems = str(caught.value).splitlines()
    assert first == "plugin 'thirdparty' cannot be configured:"
    return [problem.strip() for problem in problems]


def test_R5_our_plugins_are_installed() -> None:
    assert {"fsspec", "local", "s3"} <= set(installed_plugins(REMOTE_STORAGE))
    assert installed_plugins(REMOTE_LOG_METADATA) == ["file", "topic"]


def test_R5_a_plugin_is_built_from_text(install: Callable[..., None]) -> None:
    install("thirdparty", "thirdparty", "thirdparty_tier:Plugin")
    config = {"size.bytes": "7", "access.key": "12345678", "tokens": '{"a": "b"}', "zones": '["x", "y"]'}
    plugin = load_remote_storage("thirdparty", config)
    assert (plugin.config.size_bytes, plugin.config.zones) == (7, ["x", "y"])
    assert plugin.config.tokens["a"].get_secret_value() == "b"


def test_R5_local_plugin_loads(tmp_path: Path) -> None:
    storage = load_remote_storage("local", {"dir": str(tmp_path)})
    assert type(storage).__name__ == "LocalTieredStorage"


async def test_metadata_plugin_loads() -> None:
    context = RemoteLogMetadataContext(FakeMetadataTopic(MetadataLog()), Random(1))
    config = {"remote.log.metadata.topic.num.partitions": "5"}
    assert isinstance(load_remote_log_metadata("topic", config, context), TopicBasedRemoteLogMetadataManager)
    with pytest.raises(PluginError, match=r"rlmm\.config\.remote\.log\.metadata\.topic\.num\.partitions.*'0'"):
        load_remote_log_metadata("topic", {"remote.log.metadata.topic.num.partitions": "0"}, context)


def test_unknown_plugin_names_those_installed() -> None:
    with pytest.raises(PluginError, match=r"no plugin 'gcs' .*; installed: fsspec, local, s3\. Install the package"):
        load_remote_storage("gcs", {})


def test_plugin_whose_dependency_is_missing_says_what_to_install(install: Callable[..., None]) -> None:
    install("thirdparty", "thirdparty", "thirdparty_broken:Plugin")
    with pytest.raises(PluginError, match="install it: pip install a_module_that_nobody_has"):
        load_remote_storage("thirdparty", {})


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("thirdparty_tier:Absent", "does not exist"),
        ("thirdparty_tier:Bare", "no class attribute Config"),
        ("thirdparty_tier:SOURCE_OF_NOTHING.x", "does not exist"),
    ],
)
def test_plugin_that_is_none(install: Callable[..., None], target: str, message: str) -> None:
    install("thirdparty", "thirdparty", target)
    with pytest.raises(PluginError, match=f"{re.escape(target)}.*{message}"):
        load_remote_storage("thirdparty", {})


def test_one_name_by_two_packages_is_refused(install: Callable[..., None]) -> None:
    install("first", "thirdparty", "thirdparty_tier:Plugin")
    install("second", "thirdparty", "thirdparty_tier:Bare")
    with pytest.raises(PluginError, match=r"more than once .*: thirdparty_tier:Bare, thirdparty_tier:Plugin"):
        load_remote_storage("thirdparty", {})


def test_every_wrong_key_has_its_line(install: Callable[..., None]) -> None:
    install("thirdparty", "thirdparty", "thirdparty_tier:Plugin")
    assert problems_of({"size.bytes": "many", "zones": "x", "sise.bytes": "1", "colour": "red"}) == [
        "rsm.config.size.bytes: Input should be a valid integer, unable to parse string as an integer; it is 'many'",
        "rsm.config.access.key: required, and not given",
        "rsm.config.zones: Input should be a valid list, written as JSON; it is 'x'",
        "rsm.config.sise.bytes: unknown key; did you mean rsm.config.size.bytes?",
        "rsm.config.colour: unknown key; known: access.key, size.bytes, tokens, zones",
    ]


@pytest.mark.parametrize(
    "config",
    [
        {"access.key": "hunter2"},
        {"access.key": "hunter2-bad"},
        {"access.key": "12345678", "tokens": '{"a": ["hunter2"]}'},
        {"access.key": "12345678", "tokens": "hunter2"},
        {"access.key": "12345678", "acces.key": "hunter2"},
    ],
)
def test_secrets_are_never_shown(install: Callable[..., None], config: dict[str, str]) -> None:
    install("thirdparty", "thirdparty", "thirdparty_tier:Plugin")
    problems = problems_of(config)
    assert problems
    assert "hunter2" not in "".join(problems)
