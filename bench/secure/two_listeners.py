"""A broker with two listeners, ours or Apache Kafka's: one in plaintext, one with TLS for clients."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tierfetch.cli.local import LocalCluster, LocalQuorum, free_ports
from tierfetch.cli.local.certificates import make_authority, make_certificate

from ..lab.kafka import CONTROLLER_ID, KafkaCluster
from ..systems import TIERFETCH, Cluster, System


class Stores:
    """The files, and what they make of a broker's properties."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True)
        authority = make_authority()
        self.ca_file = directory / "ca.pem"
        self.ca_file.write_text(authority.pem)
        self._key_file = make_certificate("broker", issuer=authority).write_pem(directory, "broker")
        (self.port,) = free_ports(1)

    def of_broker(self, plaintext_port: int) -> dict[str, str]:
        return {
            "listeners": f"PLAINTEXT://127.0.0.1:{plaintext_port},TLS://127.0.0.1:{self.port}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,TLS:SSL",
            "inter.broker.listener.name": "PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._key_file),
        }

    def of_client(self) -> dict[str, str]:
        """Return how a client connects, by librdkafka's names."""
        return {
            "bootstrap.servers": f"127.0.0.1:{self.port}",
            "security.protocol": "ssl",
            "ssl.ca.location": str(self.ca_file),
        }


class _Tierfetch(LocalCluster):
    stores: Stores

    def properties(self, node: int) -> dict[str, str]:
        return super().properties(node) | self.stores.of_broker(self.port(node))


class _Kafka(KafkaCluster):
    stores: Stores

    def properties(self, node: int) -> dict[str, str]:
        own = {} if node == CONTROLLER_ID else self.stores.of_broker(self.port(node))
        return super().properties(node) | own


@contextmanager
def running(system: System, base: Path, stores: Stores) -> Iterator[Cluster]:
    if system is TIERFETCH:
        with LocalQuorum(base, 1, first_id=CONTROLLER_ID) as quorum:
            ours = _Tierfetch(base, (1,), controllers=quorum.bootstrap_controllers)
            ours.stores = stores
            with ours:
                yield ours
    else:
        kafka = _Kafka(base / "kafka", (1,), tiered=False)
        kafka.stores = stores
        with kafka:
            yield kafka
