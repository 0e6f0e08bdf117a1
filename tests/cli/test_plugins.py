"""`tierfetch plugins`, and the page that is made of the same: what a plugin's author and an operator read is true."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tierfetch.broker.config.broker_config import parse_broker_config
from tierfetch.cli.main import cli
from tierfetch.cli.plugins.page import PAGE, page
from tierfetch.fetcher.core import AdoptFromTier, Trigger
from tierfetch.fetcher.policy_registry import load_bootstrap_policy
from tierfetch.plugin_registry import BOOTSTRAP_POLICY, REMOTE_STORAGE, list_plugins
from tierfetch.testing.bootstrap_policy import LEADERS, SITUATIONS, BootstrapPolicyConformance, attempt
from tierfetch.tests.fakes.packages import install_package


def plugins(*arguments: str):
    return CliRunner().invoke(cli, ["plugins", *arguments])


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    for module in ("whole_if_small", "not_well"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    return tmp_path


def blocks(language: str) -> list[str]:
    """Return the code blocks of the page in one language."""
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)


def test_the_page_has_the_tables_of_the_code() -> None:
    assert page(PAGE.read_text()) == PAGE.read_text(), "run python -m tierfetch.cli.plugins.page"


def test_every_option_of_ours_has_a_description() -> None:
    ours = [plugin for plugin in list_plugins() if plugin.distribution == "tierfetch"]
    assert not [(plugin.name, option.name) for plugin in ours for option in plugin.options if not option.description]
    assert not [plugin.name for plugin in ours if not plugin.summary]


def test_the_policy_of_the_page_is_short_installs_and_passes_the_suite(site: Path) -> None:
    source, _ = blocks("python")
    assert source.count("\n") <= 42
    (declared,) = blocks("toml")
    target = re.search(r'whole-if-small = "(.*)"', declared)[1]
    assert f'"{BOOTSTRAP_POLICY.group}"' in declared
    install_package(site, "whole-if-small", {(BOOTSTRAP_POLICY, "whole-if-small"): target}, whole_if_small=source)
    (text,) = blocks("properties")
    given = dict(line.split("=", 1) for line in text.splitlines())
    needed = {"node.id": "1", "log.dirs": "data", "controller.quorum.bootstrap.servers": "a:1"}
    config, warnings = parse_broker_config({**needed, **given}, "broker.properties")
    assert warnings == []
    policy = load_bootstrap_policy(config.bootstrap_policy, config.bootstrap_properties)
    suite, checks = BootstrapPolicyConformance(), []
    for leader in LEADERS:
        for situation in SITUATIONS:
            suite.test_keeps_the_rules(policy, situation, leader)
            suite.test_keeps_nothing_between_attempts(policy, situation, leader)
            suite.test_adopts_only_what_is_tiered(policy, situation, leader)
            checks.append(situation)
    assert len(checks) == len(LEADERS) * len(SITUATIONS)
    cut = next(each for each in SITUATIONS if each.trigger is Trigger.TRUNCATED_BELOW_LOCAL_START)
    small = load_bootstrap_policy("whole-if-small", {"bootstrap.whole.if.small.records.max": "200"})
    large = load_bootstrap_policy("whole-if-small", {"bootstrap.whole.if.small.records.max": "199"})
    assert attempt(small, cut, LEADERS[0]).decision == AdoptFromTier(0, 100, 0), "from the local log start"
    assert attempt(large, cut, LEADERS[0]).decision == AdoptFromTier(0, 150, 0), "after the tier's end"
    shown = plugins("whole-if-small")
    assert shown.exit_code == 0
    assert "bootstrap.whole.if.small.records.max" in shown.output


def test_the_listing_names_kind_package_and_version() -> None:
    result = plugins()
    assert result.exit_code == 0
    line = next(line for line in result.output.splitlines() if "│ s3 " in line)
    assert [cell.strip() for cell in line.strip("│ ").split("│")][:3] == ["storage", "s3", "tierfetch"]


def test_the_options_of_a_plugin_have_type_default_and_unit() -> None:
    result = plugins("s3")
    cells = [[cell.strip() for cell in line.strip("│ ").split("│")] for line in result.output.splitlines()]
    assert ["rsm.config.bucket", "text", "required", "", "Name of an existing bucket."] in cells
    assert ["rsm.config.part.bytes", "integer", "16777216", "bytes", "Size of a part of a multipart upload."] in cells


def test_json_has_the_same() -> None:
    (row,) = json.loads(plugins("local", "--json").output)
    assert (row["kind"], row["configured_by"], row["error"]) == ("storage", "remote.log.storage.manager.plugin", None)
    keys = {option["key"]: option for option in row["options"]}
    assert keys["rsm.config.dir"]["default"] is None
    assert keys["rsm.config.request.timeout.ms"]["unit"] == "ms"


def test_a_plugin_that_cannot_be_loaded_stops_no_listing(site: Path) -> None:
    source = "raise RuntimeError('[/red] \\x1b[31m licence\\nexpired')"
    install_package(site, "not-well", {(REMOTE_STORAGE, "not-well"): "not_well:Plugin"}, not_well=source)
    result = plugins()
    assert result.exit_code == 0
    assert (
        "cannot be loaded: plugin 'not-well' (not_well:Plugin) cannot be imported: RuntimeError: [/red]"
        in result.output
    )
    assert "\x1b" not in result.output
    assert "tier-first" in result.output
    one = plugins("not-well")
    assert one.exit_code == 1
    assert one.output.startswith("Error: plugin 'not-well' (not_well:Plugin) cannot be imported: RuntimeError")


def test_a_misspelt_name_gets_the_nearest_one() -> None:
    result = plugins("tierfirst")
    assert result.exit_code == 2
    assert "no plugin 'tierfirst' is installed: did you mean tier-first?" in result.output
