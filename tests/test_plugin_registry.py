"""Plugins of every kind are found by one mechanism, and one that is wrong harms neither a listing nor a broker."""

from __future__ import annotations

import sys
import tomllib
from importlib.metadata import entry_points
from pathlib import Path
from random import Random

import pytest

from tierfetch import plugin_registry
from tierfetch.broker.combined import parse_combined
from tierfetch.broker.config.broker_config import parse_broker_config
from tierfetch.broker.core.read_replicas import ReadReplica
from tierfetch.broker.handlers.replica_selectors import load_replica_selector
from tierfetch.controller.core.placement import PlaceableBroker
from tierfetch.controller.placement_registry import load_replica_placement
from tierfetch.fetcher.core import AskOffsets, LocalLogStart, RetryLater, Situation, StartAt, TierFirst, Trigger
from tierfetch.fetcher.policy_registry import ConfiguredPolicies, load_bootstrap_policy
from tierfetch.plugin_options import PluginError
from tierfetch.plugin_registry import (
    BOOTSTRAP_POLICY,
    KINDS,
    REPLICA_PLACEMENT,
    REPLICA_SELECTOR,
    installed_plugins,
    list_plugins,
    load_plugin,
)
from tierfetch.protocol import ErrorCode, KafkaError, OperatorError
from tierfetch.quorum.controller_config import parse_controller_config
from tierfetch.testing.bootstrap_policy import LEADERS, attempt
from tierfetch.tests.fakes.packages import install_package

ROOT = Path(__file__).parents[1]
BROKER = {"node.id": "1", "log.dirs": "data", "controller.quorum.bootstrap.servers": "a:1"}
CONTROLLER = {"node.id": "1", "log.dirs": "data", "controller.quorum.bootstrap.servers": "a:1"}
EMPTY = Situation(trigger=Trigger.ASSIGNED, log_end_offset=0, is_tiered=True)
SOURCE = """
from pydantic import Field
from tierfetch.plugin_options import PluginConfig
from tierfetch.fetcher.core import AskOffsets, RetryLater, StartAt

class Config(PluginConfig):
    offset: int = Field(0, description="Where to start.")
    pause_ms: int = Field(ge=1, description="A pause.")

class Fixed:
    '''Starts at one offset.

    More about it.
    '''
    Config = Config
    name = "fixed"
    def __init__(self, config):
        self.config = config
    def plan(self, situation):
        yield AskOffsets((-2,))
        return StartAt(self.config.offset)

class Broken(Fixed):
    def plan(self, situation):
        yield AskOffsets((-2,))
        raise ZeroDivisionError("no replicas")

class Chatty(Fixed):
    def plan(self, situation):
        yield "what now?"

class Placement:
    Config = PluginConfig
    def __init__(self, config): pass
    def placer(self, brokers, random): return self
    def place(self, partitions, factor): return [[9] * factor] * partitions

class Failing(Placement):
    def placer(self, brokers, random): raise KeyError("rack")

class Selector:
    Config = PluginConfig
    def __init__(self, config): pass
    def __call__(self, rack, leader, followers): return followers[0] if rack == "b" else "broker 2"
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory on the path, with a package that offers plugins of three kinds."""
    monkeypatch.syspath_prepend(str(tmp_path))
    plugins = {
        (BOOTSTRAP_POLICY, "fixed"): "elsewhere:Fixed",
        (BOOTSTRAP_POLICY, "chatty"): "elsewhere:Chatty",
        (BOOTSTRAP_POLICY, "raises"): "elsewhere:Broken",
        (REPLICA_PLACEMENT, "nine"): "elsewhere:Placement",
        (REPLICA_PLACEMENT, "fails"): "elsewhere:Failing",
        (REPLICA_SELECTOR, "near"): "elsewhere:Selector",
    }
    monkeypatch.delitem(sys.modules, "elsewhere", raising=False)
    for number, (key, target) in enumerate(plugins.items()):
        install_package(tmp_path, f"elsewhere{number}", {key: target}, elsewhere=SOURCE)
    return tmp_path


def test_R5_the_entry_points_of_the_project_are_the_built_in_plugins() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    assert {kind.group: dict(kind.built_in) for kind in KINDS} == {
        group: plugins for group, plugins in declared.items() if group.startswith("tierfetch.")
    }


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_R5_every_built_in_plugin_loads(kind) -> None:
    assert set(kind.built_in) <= set(installed_plugins(kind))
    for name in kind.built_in:
        assert load_plugin(kind, name).Config


def test_R5_a_listing_has_each_plugin_with_its_package_and_options(site: Path) -> None:
    (found,) = [plugin for plugin in list_plugins() if plugin.name == "fixed"]
    assert (found.kind, found.distribution, found.version, found.summary, found.error) == (
        BOOTSTRAP_POLICY,
        "elsewhere0",
        "1.0",
        "Starts at one offset.",
        None,
    )
    assert [(option.name, option.type, option.default, option.unit) for option in found.options] == [
        ("offset", "integer", "0", ""),
        ("pause.ms", "integer", None, "ms"),
    ]


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("import a_module_that_is_not_there", "cannot be imported: No module named"),
        ("raise RuntimeError('licence\\nexpired')", "cannot be imported: RuntimeError: licence expired"),
        ("raise SystemExit(3)", "cannot be imported: SystemExit: 3"),
        ("Plugin = 7", "has no class attribute Config"),
        ("", "does not exist"),
    ],
)
def test_R5_a_plugin_that_cannot_be_loaded_is_one_line_of_the_listing(site: Path, source: str, said: str) -> None:
    name = f"bad_{len(source)}"
    install_package(site, name, {(BOOTSTRAP_POLICY, "bad"): f"{name}:Plugin"}, **{name: source})
    listed = {plugin.name: plugin for plugin in list_plugins()}
    assert listed["bad"].error is not None
    assert said in listed["bad"].error
    assert "\n" not in listed["bad"].error
    assert listed["tier-first"].error is None


def test_two_packages_with_one_name_are_listed_twice_and_refused(site: Path) -> None:
    install_package(site, "again", {(BOOTSTRAP_POLICY, "tier-first"): "elsewhere:Fixed"})
    both = [plugin for plugin in list_plugins() if plugin.name == "tier-first"]
    assert len(both) == 2
    assert all(plugin.error is not None and "provided more than once" in plugin.error for plugin in both)
    with pytest.raises(PluginError, match="provided more than once"):
        load_bootstrap_policy("tier-first", {})


def test_F6_a_policy_of_another_package_is_built_from_the_brokers_file(site: Path) -> None:
    config, warnings = parse_broker_config(
        {**BROKER, "bootstrap.policy": "fixed", "bootstrap.fixed.pause.ms": "5", "bootstrap.bounded.local.bytes": "7"},
        "broker.properties",
    )
    assert warnings == []
    policy = load_bootstrap_policy(config.bootstrap_policy, config.bootstrap_properties)
    assert attempt(policy, EMPTY, LEADERS[0]).decision == StartAt(0)
    with pytest.raises(PluginError, match=r"bootstrap\.fixed\.pause\.ms: required, and not given"):
        load_bootstrap_policy("fixed", {})
    _, warnings = parse_broker_config({**BROKER, "bootstrap.fixt.pause.ms": "5"}, "broker.properties")
    assert warnings == ["broker.properties: unknown key 'bootstrap.fixt.pause.ms' is ignored"]


def test_bounded_local_takes_its_two_keys() -> None:
    config, _ = parse_broker_config(
        {**BROKER, "bootstrap.bounded.local.bytes": "7", "bootstrap.bounded.local.ms": "8"}, "x"
    )
    policy = load_bootstrap_policy("bounded-local", config.bootstrap_properties)
    assert (policy.config.bytes, policy.config.ms) == (7, 8)


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("fixed", {"bootstrap.fixed.offset": "60"}, "decided to start at 60, above the leader's log start (0)"),
        ("raises", {}, "raised ZeroDivisionError: no replicas"),
        ("chatty", {}, "asked 'what now?', which is no question"),
    ],
)
def test_bootstrap_a_policy_that_breaks_a_rule_is_replaced_for_the_attempt(
    site: Path, caplog: pytest.LogCaptureFixture, name: str, options: dict[str, str], said: str
) -> None:
    policy = load_bootstrap_policy(name, {f"bootstrap.{name}.pause.ms": "1", **options})
    refused = Situation(trigger=Trigger.MOVED_TO_TIERED_STORAGE, log_end_offset=0, is_tiered=True)
    expected = attempt(LocalLogStart(), refused, LEADERS[0]).decision
    assert attempt(policy, refused, LEADERS[0]).decision == expected
    assert f"bootstrap policy {name!r} {said}; local-log-start acts instead" in caplog.text


def test_the_leaders_errors_pass_through_a_policy(site: Path) -> None:
    plan = load_bootstrap_policy("fixed", {"bootstrap.fixed.pause.ms": "1"}).plan(EMPTY)
    assert next(plan) == AskOffsets((-2,))
    with pytest.raises(KafkaError):
        plan.throw(KafkaError(ErrorCode.fenced_leader_epoch))


def test_a_dynamic_policy_that_cannot_be_had_leaves_tier_first_and_one_line(caplog: pytest.LogCaptureFixture) -> None:
    policies = ConfiguredPolicies()
    assert [policies.policy("absent", {}) for _ in range(3)] == [TierFirst()] * 3
    assert caplog.text.count("bootstrap.policy=absent cannot act, tier-first does") == 1
    assert policies.policy("log-start", {}).name == "log-start"


def test_a_placement_of_another_package_is_refused_where_it_is_wrong(site: Path) -> None:
    brokers = [PlaceableBroker(9, None, False), PlaceableBroker(2, None, False)]
    placement = load_replica_placement("nine", {})
    assert placement.placer(brokers, Random(1)).place(2, 1) == [[9], [9]]
    with pytest.raises(KafkaError, match=r"'nine' returned replicas \[9, 9\] in place of 2 different ones") as wrong:
        placement.placer(brokers, Random(1)).place(1, 2)
    assert wrong.value.code is ErrorCode.policy_violation
    with pytest.raises(KafkaError, match="needs as many brokers"):
        placement.placer(brokers, Random(1)).place(1, 3)
    with pytest.raises(KafkaError, match="'fails' raised KeyError: 'rack'"):
        load_replica_placement("fails", {}).placer(brokers, Random(1)).place(1, 1)


def test_a_controller_reads_its_placement() -> None:
    given = {"replica.placement.plugin": "striped", "replica.placement.config.pods": "3", "process.roles": "controller"}
    config, warnings = parse_controller_config({**CONTROLLER, **given}, "controller.properties")
    assert (config.replica_placement_plugin, warnings) == ("striped", [])
    with pytest.raises(PluginError, match=r"replica\.placement\.config\.pods: unknown key; known: none"):
        load_replica_placement(config.replica_placement_plugin, config.replica_placement_config)


def test_a_node_with_both_roles_gives_each_its_options() -> None:
    given = {
        **BROKER,
        "process.roles": "broker,controller",
        "listeners": "PLAINTEXT://a:2,CONTROLLER://a:1",
        "replica.placement.config.pods": "3",
        "replica.selector.config.zone": "b",
        "bootstrap.tier.first.unknown.upload.wait.ms": "7",
    }
    config, warnings = parse_combined(given, "server.properties")
    assert warnings == []
    assert config.controller.replica_placement_config == {"pods": "3"}
    assert config.broker.replica_selector_config == {"zone": "b"}
    policy = load_bootstrap_policy("tier-first", config.broker.bootstrap_properties)
    assert policy.config.unknown_upload_wait_ms == 7


def test_a_selector_of_another_package_fails_no_fetch(site: Path, caplog: pytest.LogCaptureFixture) -> None:
    config, warnings = parse_broker_config({**BROKER, "replica.selector.class": "near"}, "broker.properties")
    assert warnings == []
    select = load_replica_selector(config)
    leader, follower = ReadReplica(1, "a", 9, 0), ReadReplica(2, "b", 9, 0)
    assert select("b", leader, [follower]) is follower
    assert [select("c", leader, [follower]), select("b", leader, [])] == [leader, leader]
    assert caplog.text.count("replica selector 'near'") == 1


def test_kafkas_names_of_selectors_still_work() -> None:
    name = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    config, _ = parse_broker_config({**BROKER, "replica.selector.class": name}, "broker.properties")
    leader, follower = ReadReplica(1, "a", 9, 0), ReadReplica(2, "b", 9, 0)
    assert load_replica_selector(config)("b", leader, [follower]) is follower
    assert load_replica_selector(parse_broker_config(BROKER, "x")[0])("b", leader, [follower]) is leader


@pytest.mark.slow
def test_R5_a_cluster_runs_with_plugins_of_another_package(site: Path, tierfetch_cluster_factory) -> None:
    (site / "elsewhere.py").write_text(
        SOURCE.replace("return [[9] * factor] * partitions", "return [[2, 1][:factor]] * partitions")
    )
    cluster = tierfetch_cluster_factory(
        brokers=2,
        policy="fixed",
        configs={"bootstrap.fixed.pause.ms": "5", "replica.selector.class": "near"},
        controller_configs={"replica.placement.plugin": "nine"},
    )
    cluster.create_topic("t", 4)
    assert {cluster.leader("t", partition) for partition in range(4)} == {2}, "as the placement has it"
    cluster.produce("t", b"one")
    cluster.kill(1)
    cluster.start(1, wipe=True)
    cluster.wait_isr("t")
    assert [record.value for record in cluster.records("t")] == [b"one"]


@pytest.mark.slow
def test_R5_a_broker_with_a_plugin_that_is_wrong_does_not_start_and_says_why(
    site: Path, tierfetch_cluster_factory
) -> None:
    with pytest.raises(OperatorError, match=r"bootstrap\.fixed\.pause\.ms: required, and not given"):
        tierfetch_cluster_factory(brokers=1, tier=None, policy="fixed")
    with pytest.raises(OperatorError, match="no plugin 'absent' is installed in the group"):
        tierfetch_cluster_factory(brokers=1, tier=None, controller_configs={"replica.placement.plugin": "absent"})


def test_a_policy_may_wait() -> None:
    assert isinstance(attempt(TierFirst(), EMPTY, LEADERS[5]).decision, RetryLater)


def test_packages_are_read_once_for_all_kinds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each broker loads five kinds at its start, and an environment may have hundreds of packages."""
    scans = []

    def counted() -> object:
        scans.append(1)
        return entry_points()

    monkeypatch.setattr(plugin_registry, "entry_points", counted)
    monkeypatch.syspath_prepend(tmp_path)  # a path that was not read before
    for kind in KINDS:
        assert set(installed_plugins(kind)) >= set(kind.built_in)
    assert scans == [1]
