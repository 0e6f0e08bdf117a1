"""A disk below `log.dir.free.bytes.min`: what the commands say of it."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from tierfetch.cli.main import cli
from tierfetch.cli.records.produce import QUEUE_MAX
from tierfetch.log.disk import DiskSpace
from tierfetch.testing import InProcessCluster
from tierfetch.testing.cluster.disk import FaultyDisk

pytestmark = pytest.mark.plaintext


@pytest.mark.tierfetch(tier=None)
def test_D5_a_full_disk_is_shown_and_what_is_produced_to_it_ends_with_a_reason(
    tierfetch_cluster: InProcessCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = tierfetch_cluster
    cluster.create_topic("orders")

    async def space(_: FaultyDisk, __: Path) -> DiskSpace:
        return DiskSpace(total_bytes=60 << 20, usable_bytes=50 << 20)

    monkeypatch.setattr(FaultyDisk, "space", space)

    def run(*words: str, given: str = "") -> tuple[int, str, str]:
        done = CliRunner().invoke(cli, [*words, "--bootstrap", cluster.bootstrap], input=given)
        return done.exit_code, done.stdout, done.stderr

    def failed() -> int | None:
        rows = json.loads(run("brokers", "list", "--json")[1])
        found: int | None = rows[0]["out_of_service"]
        return found

    cluster.wait_until(lambda: failed() == 1, "the replica on the full disk to be shown as failed")
    began_s = time.monotonic()
    code, _, said = run("produce", "orders", "--timeout", "1", given="one\n" * (30 * QUEUE_MAX))
    assert code == 1
    assert "not acknowledged: Local: Message timed out; tierfetch topics describe and tierfetch brokers list" in said
    assert time.monotonic() - began_s < 25, "it stops at the first that fails, and does not try them all"
