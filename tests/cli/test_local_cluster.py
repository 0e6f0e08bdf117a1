"""What a local cluster tells its brokers."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tierfetch.cli.local import processes
from tierfetch.cli.local.cluster import LocalCluster, TierSettings
from tierfetch.cli.local.processes import free_ports
from tierfetch.cli.local.quorum import LocalQuorum
from tierfetch.cli.local.servers import LocalServers

OUTGOING_PORTS_FROM = 32_768
"""Linux' default of net.ipv4.ip_local_port_range; what this machine has is its owner's."""


def test_brokers_find_a_relative_base_from_wherever_they_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cluster = LocalCluster(Path("here"))
    properties = cluster.properties(1)
    assert properties["log.dirs"] == str(tmp_path / "here" / "broker-1")
    assert cluster.quorum is not None
    assert cluster.quorum.properties(100)["log.dirs"] == str(tmp_path / "here" / "controller-100")


def test_the_keys_of_a_tier_are_shown_to_nobody(tmp_path: Path) -> None:
    tier = TierSettings("s3", {"bucket": "tier", "secret.access.key": "hunter2"})
    path = LocalCluster(tmp_path, tier=tier).config_file(1)
    assert "rsm.config.secret.access.key=hunter2" in path.read_text()
    assert path.stat().st_mode & 0o077 == 0
    assert "hunter2" not in repr(tier)


@pytest.mark.parametrize("kind", [LocalQuorum, LocalServers])
def test_the_id_of_a_cluster_is_drawn_once_and_stays_with_its_data(
    kind: type[LocalQuorum | LocalServers], tmp_path: Path
) -> None:
    def formatted(name: str) -> str:
        nodes = LocalQuorum(tmp_path / name, 2) if kind is LocalQuorum else LocalServers(tmp_path / name, (1, 2))
        nodes.base.mkdir(exist_ok=True)
        for node in nodes.nodes:
            nodes.prepare(node)
        return nodes.cluster_id

    first = formatted("first")
    assert formatted("second") != first
    assert formatted("first") == first


def test_ports_of_nodes_are_free_and_never_those_of_outgoing_connections() -> None:
    taken = next(port + 1 for port in iter(lambda: free_ports(1)[0], None) if port + 1 not in processes.BLOCKS)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", taken))
        drawn = free_ports(150)
    assert taken not in drawn
    assert max(drawn) < OUTGOING_PORTS_FROM


def test_a_port_that_was_drawn_is_drawn_by_nobody_else_even_while_nobody_listens_on_it() -> None:
    drawn = [*free_ports(150), *free_ports(150)]
    # By chance alone, 27 would be expected twice.
    other = "from tierfetch.cli.local.processes import free_ports; print(*free_ports(2_000))"
    others = subprocess.run([sys.executable, "-c", other], check=True, capture_output=True, text=True).stdout.split()
    assert len(set(drawn)) == len(drawn)
    assert len(others) == 2_000
    assert not set(drawn) & set(map(int, others))


def test_what_was_waited_for_is_told_as_it_is_at_the_end() -> None:
    looks: list[float] = []
    waiting = processes.poll(0.01, lambda: f"the end of {len(looks)} looks", interval_s=0.001)
    with pytest.raises(TimeoutError) as failed:
        looks.extend(waiting)
    assert str(failed.value).endswith(f"the end of {len(looks)} looks")
    assert looks
