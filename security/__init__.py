"""Identity: who the other end of a connection is. Nothing here knows Kafka's messages; `protocol/net` uses it.

principal      declares `KafkaPrincipal`, and the security protocol of a listener.
core/          decides: SASL mechanisms, JAAS syntax, principal mapping rules, settings. Pure.
listener       is what a listener uses: its TLS context, its SASL mechanisms.
client         is what a client uses: its TLS context, what it presents.
librdkafka     gives a client's settings by the names of librdkafka.
client_file    reads a client's properties file, as Java's tools do.
authorizer     decides what a principal may do, and keeps the audit log.
tokens         checks bearer tokens.
token_source   gets a client's bearer token.
tls            makes TLS contexts.
contexts       follows the files of a TLS context.
keystores      reads keys and certificates: PEM, PKCS12, JKS.
secret_files   reads files that hold secrets.
failures       says in words why a TLS handshake failed.

Other folders import what is exported here and in `core`. What brings sockets, TLS or a parser is imported when it is
asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..doors import lazy_door
from .core.acl import CLUSTER, AclOperation, Resource, ResourceType
from .principal import ANONYMOUS, USER, KafkaPrincipal, SecurityProtocol

if TYPE_CHECKING:
    from .authorizer import Authorizer, StandardAuthorizer
    from .client import ClientIdentity, open_client
    from .client_file import COMMAND_CONFIG, read_client_file
    from .failures import tls_failure
    from .librdkafka import librdkafka_properties
    from .listener import ListenerIdentity, open_listener
    from .secret_files import secrets_readable

__all__ = [
    "ANONYMOUS",
    "CLUSTER",
    "COMMAND_CONFIG",
    "USER",
    "AclOperation",
    "Authorizer",
    "ClientIdentity",
    "KafkaPrincipal",
    "ListenerIdentity",
    "Resource",
    "ResourceType",
    "SecurityProtocol",
    "StandardAuthorizer",
    "librdkafka_properties",
    "open_client",
    "open_listener",
    "read_client_file",
    "secrets_readable",
    "tls_failure",
]

if not TYPE_CHECKING:
    __getattr__ = lazy_door(
        __name__,
        {
            "Authorizer": "authorizer",
            "COMMAND_CONFIG": "client_file",
            "ClientIdentity": "client",
            "ListenerIdentity": "listener",
            "StandardAuthorizer": "authorizer",
            "librdkafka_properties": "librdkafka",
            "open_client": "client",
            "open_listener": "listener",
            "read_client_file": "client_file",
            "secrets_readable": "secret_files",
            "tls_failure": "failures",
        },
    )
