"""The security of a cluster on this machine: its certificates, its passwords, and the properties that use them.

| listener | who connects | protocol | principal |
|---|---|---|---|
| CLIENTS | clients | SASL_SSL, SCRAM-SHA-512 | `User:admin`, or a user that it has made |
| BROKERS | brokers | SSL, certificates on both sides | `User:broker` |
| CONTROLLER | brokers and controllers | SSL, certificates on both sides | `User:broker`, `User:controller` |

ACLs deny by default; these three principals are super users. Everything secret is below one directory with mode 0700:

    ca.pem                      the authority
    <kind>-<node>.pem           a node's key and certificate
    client.properties           how clients of brokers connect: for `--command-config`, and for Kafka's tools
    controller.properties       the same for who asks controllers directly
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from ...security import ClientIdentity, read_client_file
from ..add_scram import scram_record
from ..command_config import VARIABLE
from .certificates import make_authority, make_certificate

CLIENT_FILE: Final = "client.properties"
CONTROLLER_FILE: Final = "controller.properties"
USER: Final = "admin"
_MECHANISM: Final = "SCRAM-SHA-512"
_LOGIN: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required"
_PROTOCOLS: Final = {"CLIENTS": "SASL_SSL", "BROKERS": "SSL", "CONTROLLER": "SSL"}


class LocalSecurity:
    """Makes its files at once. FileExistsError if the directory exists: the key of its authority was never written."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(mode=0o700, parents=True)
        self.directory = directory.absolute()
        self._authority = make_authority()
        self._password = secrets.token_urlsafe()
        self.ca_file = self.directory / "ca.pem"
        self.ca_file.write_text(self._authority.pem)
        self.client_file = self._write(CLIENT_FILE, self.client_properties())
        self.controller_file = self._write(CONTROLLER_FILE, {"security.protocol": "SSL", **self._stores("controller")})

    def client_properties(self) -> dict[str, str]:
        """Return what clients of brokers need, by the names of Java's clients."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": _MECHANISM,
            "sasl.jaas.config": f'{_LOGIN} username="{USER}" password="{self._password}";',
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca_file),
        }

    def librdkafka(self) -> dict[str, str]:
        """Return what clients of brokers need, by librdkafka's names."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": _MECHANISM,
            "sasl.username": USER,
            "sasl.password": self._password,
            "ssl.ca.location": str(self.ca_file),
        }

    def client(self) -> ClientIdentity | None:
        """Return the identity of a client of brokers."""
        return read_client_file(self.client_file)

    def client_of_controllers(self) -> ClientIdentity | None:
        """Return the identity of a client that asks controllers directly."""
        return read_client_file(self.controller_file)

    def environment(self, arguments: Iterable[str]) -> dict[str, str]:
        """Return the environment of a command of ours: it asks controllers, or brokers."""
        asks_controllers = "--bootstrap-controller" in arguments
        return {**os.environ, VARIABLE: str(self.controller_file if asks_controllers else self.client_file)}

    def first_records(self) -> tuple[bytes, ...]:
        """Return the records that a new cluster begins with: the credential of `admin`."""
        return (scram_record(f"{_MECHANISM}=[name={USER},password={self._password}]"),)

    def of_broker(self, node: int, clients_port: int, brokers_port: int) -> dict[str, str]:
        """Return a broker's listeners and how they are secured."""
        return {
            **self._of_node("broker", node, ("CLIENTS", "BROKERS", "CONTROLLER")),
            "listeners": f"CLIENTS://127.0.0.1:{clients_port},BROKERS://127.0.0.1:{brokers_port}",
            "inter.broker.listener.name": "BROKERS",
            "controller.listener.names": "CONTROLLER",
            "listener.name.clients.sasl.enabled.mechanisms": _MECHANISM,
            "listener.name.brokers.ssl.client.auth": "required",
        }

    def of_controller(self, node: int) -> dict[str, str]:
        """Return how a controller's listener is secured."""
        return self._of_node("controller", node, ("CONTROLLER",))

    def _of_node(self, kind: str, node: int, listeners: tuple[str, ...]) -> dict[str, str]:
        return {
            "listener.security.protocol.map": ",".join(f"{name}:{_PROTOCOLS[name]}" for name in listeners),
            **self._stores(f"{kind}-{node}"),
            "listener.name.controller.ssl.client.auth": "required",
            "ssl.principal.mapping.rules": r"RULE:^CN=([a-z]+)(-[0-9]+)?(,.*)?$/$1/",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{USER};User:broker;User:controller",
        }

    def _stores(self, name: str) -> dict[str, str]:
        """Return the key that `name` proves itself with, made when it is first asked for, and the authority."""
        path = self.directory / f"{name}.pem"
        if not path.exists():
            make_certificate(name, issuer=self._authority).write_pem(self.directory, name)
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(path),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca_file),
        }

    def _write(self, name: str, properties: Mapping[str, str]) -> Path:
        path = self.directory / name
        path.touch(mode=0o600)
        path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        return path
