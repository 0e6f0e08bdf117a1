"""Servers whose every kind of connection is protected in another way.

| listener | protocol | identity |
|---|---|---|
| PLAINTEXT | PLAINTEXT on loopback | none; for the harness |
| EXTERNAL | SASL_SSL | SCRAM-SHA-256 or PLAIN |
| INTERNAL | SSL | brokers' certificates |
| CONTROLLER | SASL_SSL | PLAIN |
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path

from tierfetch.cli.add_scram import scram_record
from tierfetch.cli.format import format_order, run_format
from tierfetch.cli.local.certificates import make_authority, make_certificate
from tierfetch.cli.local.processes import free_ports
from tierfetch.cli.local.servers import LocalServers
from tierfetch.quorum.controller_config import parse_controller_config

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"


class SecureServers(LocalServers):
    """`alice` has a SCRAM credential from the beginning; `bob` is a user of PLAIN."""

    def __init__(self, base: Path, node_ids: Iterable[int] = (1,), *, configs: Mapping[str, str] | None = None) -> None:
        nodes = tuple(node_ids)
        free = free_ports(2 * len(nodes))
        self.external_ports = dict(zip(nodes, free[: len(nodes)], strict=True))
        self._internal_ports = dict(zip(nodes, free[len(nodes) :], strict=True))
        self._secrets = base / "secrets"
        self._secrets.mkdir(parents=True)
        self.authority = make_authority()
        self.ca = self._secrets / "ca.pem"
        self.ca.write_text(self.authority.pem)
        for node in nodes:
            make_certificate(f"broker-{node}", issuer=self.authority).write_pem(self._secrets, f"node-{node}")
        super().__init__(base, nodes, configs=configs)

    @property
    def external(self) -> str:
        return ",".join(f"localhost:{port}" for port in self.external_ports.values())

    def key_file(self, node: int) -> Path:
        return self._secrets / f"node-{node}.pem"

    def client(self, mechanism: str = "SCRAM-SHA-256", user: str = "alice", password: str = "pencil") -> dict[str, str]:
        """A client's properties, as Java's tools take them."""
        module = PLAIN if mechanism == "PLAIN" else SCRAM
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f'{module} username="{user}" password="{password}";',
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca),
        }

    def prepare(self, node: int) -> None:
        config, _ = parse_controller_config(self.properties(node), str(self.base))
        order = format_order(config, self.cluster_id, standalone=False, initial=None, without=False)
        order = order.with_records((scram_record("SCRAM-SHA-256=[name=alice,password=pencil]"),))
        asyncio.run(run_format(order, ignore_formatted=True))

    def properties(self, node: int) -> dict[str, str]:
        known = super().properties(node)
        external, internal = self.external_ports[node], self._internal_ports[node]
        return {
            **known,
            "listeners": f"{known['listeners']},EXTERNAL://localhost:{external},INTERNAL://127.0.0.1:{internal}",
            "listener.security.protocol.map": (
                "PLAINTEXT:PLAINTEXT,EXTERNAL:SASL_SSL,INTERNAL:SSL,CONTROLLER:SASL_SSL"
            ),
            "inter.broker.listener.name": "INTERNAL",
            "sasl.mechanism.controller.protocol": "PLAIN",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.key_file(node)),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca),
            "listener.name.internal.ssl.client.auth": "required",
            "listener.name.external.sasl.enabled.mechanisms": "SCRAM-SHA-256,PLAIN",
            "listener.name.external.plain.sasl.jaas.config": f'{PLAIN} user_bob="pen";',
            "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.controller.plain.sasl.jaas.config": (
                f'{PLAIN} username="node" password="node-secret" user_node="node-secret";'
            ),
        }
