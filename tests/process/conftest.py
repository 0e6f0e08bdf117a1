"""Real broker processes on loopback; every test here is marked `process` and `slow`. What takes long is in the suites
`faults` and `commands`, by the table below.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tierfetch.cli.local.cluster import LocalCluster, TierSettings
from tierfetch.cli.local.nodes import LocalNodes
from tierfetch.tests.process.securing import leave_out_plaintext, secured_clusters

LOG_CHARACTERS = 10_000


@dataclass(frozen=True)
class Suite:
    """Where the tests of a file run instead of in `make test`, but for the short ones that stay there."""

    marker: str
    stay: frozenset[str] = frozenset()


def faults(*stay: str) -> Suite:
    """Nodes, disks and tiers that fail."""
    return Suite("faults", frozenset(stay))


def commands(*stay: str) -> Suite:
    """Clusters that the command starts and operates, and long stories of healthy ones."""
    return Suite("commands", frozenset(stay))


SUITES: Final[Mapping[str, Suite]] = {
    "test_broker_command.py": commands(
        "test_idle_broker_is_small",
        "test_port_that_is_taken_is_said",
        "test_second_broker_on_the_same_directory_is_refused",
        "test_stops_in_order_on_sigterm_and_sigint",
    ),
    "test_broker_rights.py": commands(),
    "test_cluster_command.py": commands(),
    "test_combined.py": commands(
        "test_one_file_serves_both_roles_and_tells_mistakes", "test_one_process_alone_is_a_cluster_and_stops_in_order"
    ),
    "test_compaction.py": commands(),
    "test_consumer_groups.py": commands(
        "test_a_group_goes_on_where_it_committed",
        "test_a_regular_expression_finds_topics_that_come_later",
        "test_members_share_the_partitions",
    ),
    "test_directory_moves.py": faults("test_D4_no_acknowledged_record_is_lost_and_no_error_seen_while_a_replica_moves"),
    "test_durability.py": commands("test_a_broker_that_was_stopped_in_order_recovers_nothing"),
    "test_failed_log.py": faults(),
    "test_faults.py": faults(),
    "test_faulty_tier.py": faults(),
    "test_follower_fetch.py": commands("test_F11_a_consumer_reads_from_the_follower_in_its_rack_and_keeps_up"),
    "test_group_failover.py": faults(),
    "test_groups.py": commands(
        "test_a_group_goes_on_where_it_committed",
        "test_a_static_member_comes_back_to_its_partitions",
        "test_clients_of_any_kind_are_one_group",
        "test_members_share_the_partitions",
        "test_the_others_take_over_from_a_member_that_is_killed",
    ),
    "test_hurt_files.py": faults("test_a_torn_tail_is_cut_and_what_was_whole_is_served"),
    "test_log_dirs.py": faults(),
    "test_model_capture.py": commands("test_model_takes_what_was_captured"),
    "test_quorum.py": commands(
        "test_Q8_a_leader_that_is_told_to_stop_hands_over",
        "test_Q11_what_a_controller_says_when_it_cannot_start",
        "test_Q12_metrics_are_served",
    ),
    "test_readme.py": commands(),
    "test_reassign.py": commands(),
    "test_record_commands.py": commands(),
    "test_replacement.py": commands("test_F6_wiped_follower_comes_back_from_the_tier_byte_for_byte"),
    "test_thin_leaders.py": commands(),
    "test_transaction_bounces.py": faults(),
    "test_transaction_failover.py": faults(),
    "test_tutorial.py": commands(),
    "test_whole_cluster.py": faults(),
}
"""By file. All others run in `make test`, or have a marker of their own."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    here = f"{Path(__file__).parent}{os.sep}"
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker(pytest.mark.process)
            item.add_marker(pytest.mark.slow)
            suite = SUITES.get(item.path.name)
            if suite is not None and getattr(item, "originalname", item.name) not in suite.stay:
                item.add_marker(suite.marker)
            leave_out_plaintext(config, item)


@pytest.fixture(scope="package", autouse=True)
def nodes_start_as_users_have_them() -> Iterator[None]:
    """Processes that are started here keep their bytecode."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the end of each node's log below a test that failed on it."""
    report = yield
    if report.failed and isinstance(item, pytest.Function):
        nodes = [value for value in item.funcargs.values() if isinstance(value, LocalNodes)]
        report.sections += [
            (f"log of {each.kind} {node}", each.log_file(node).read_text(errors="replace")[-LOG_CHARACTERS:])
            for each in nodes
            for node in each.nodes
            if each.log_file(node).exists()
        ]
    return report


@pytest.fixture(scope="package", autouse=True)
def clusters_are_secured(
    nodes_start_as_users_have_them: None, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """With `--secure` every cluster is, and every client, command and process that a test starts gets in."""
    if not request.config.getoption("--secure"):
        yield
        return
    with secured_clusters(tmp_path_factory.mktemp("security")):
        yield


def local_tier(base: Path) -> TierSettings:
    return TierSettings("local", {"dir": str(base / "tier")})


@pytest.fixture(scope="package")
def shared_cluster(clusters_are_secured: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Two brokers with a local tier, for tests that kill nothing."""
    base = tmp_path_factory.mktemp("cluster")
    with LocalCluster(base, (1, 2), tier=local_tier(base)) as cluster:
        yield cluster
