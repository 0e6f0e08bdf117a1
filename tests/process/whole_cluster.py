"""Three controllers, three brokers and a tier, and how to look at them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tierfetch.cli.command_config import make_client
from tierfetch.cli.local.cluster import LocalCluster, TierSettings
from tierfetch.cli.local.processes import poll
from tierfetch.cli.local.quorum import LocalQuorum
from tierfetch.protocol.errors import KafkaError
from tierfetch.protocol.net.client import Address
from tierfetch.protocol.requests import metadata_of

TIMEOUT_S = 120.0
"""Longer than a broker tries to register: where that is what fails, its log says so."""
BROKERS = (11, 12, 13)


@dataclass
class WholeCluster:
    """A cluster and its controllers."""

    quorum: LocalQuorum
    brokers: LocalCluster

    @property
    def servers(self) -> str:
        return self.brokers.bootstrap_servers

    def partition(self, topic: str, *, ask: int | None = None) -> Any:
        """Partition 0 as a broker that answers knows it: kio's MetadataResponsePartition; None where it does not."""
        for broker in [ask] if ask is not None else BROKERS:
            try:
                return asyncio.run(_partition(self.brokers.port(broker), topic))
            except (OSError, KafkaError, LookupError):
                continue
        return None

    def wait(self, topic: str, what: str, condition: Any) -> Any:
        for _ in poll(
            TIMEOUT_S, lambda: f"{topic} {what}; it is {self.partition(topic)}\n{self._logs_of_the_offline(topic)}"
        ):
            found = self.partition(topic)
            if found is not None and condition(found):
                return found
        raise AssertionError("unreachable: poll raises")

    def _logs_of_the_offline(self, topic: str) -> str:
        """The ends of the logs of the replicas' brokers that are offline, for who has waited in vain."""
        found = self.partition(topic)
        offline = BROKERS if found is None else found.offline_replicas
        return "\n".join(f"broker {each}:\n{self.brokers.log_tail(each)}" for each in offline)

    def wait_led_by_another(self, topic: str, than: int) -> Any:
        return self.wait(topic, "to have another leader", lambda part: part.leader_id not in (-1, than))

    def run(self, *arguments: str, code: int = 0) -> str:
        """What the command says."""
        command = [sys.executable, "-m", "tierfetch.cli.main", *arguments, "--bootstrap", self.servers]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        assert done.returncode == code, done.stderr
        return done.stdout + (done.stderr if code else "")


async def _partition(port: int, topic: str) -> Any:
    client = make_client("test")
    body = metadata_of([topic])
    try:
        answer = await client.send(Address("127.0.0.1", port), body, timeout_s=2)
    finally:
        await client.close()
    return answer.topics[0].partitions[0]


@contextmanager
def whole_cluster(base: Path) -> Iterator[WholeCluster]:
    tier = TierSettings("local", {"dir": str(base / "tier")})
    configs = {"follower.fetch.last.tiered.offset.enable": "true"}
    with LocalQuorum(base) as quorum:
        controllers = quorum.bootstrap_controllers
        with LocalCluster(base, BROKERS, tier=tier, configs=configs, controllers=controllers) as brokers:
            yield WholeCluster(quorum, brokers)
