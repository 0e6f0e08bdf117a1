"""Identity: who the other end of a connection is. Nothing here knows Kafka's messages; `protocol/net` uses it.

principal      declares `KafkaPrincipal`, and the security protocol of a listener.
core/          decides: SASL mechanisms, JAAS syntax, principal mapping rules, settings. Pure.
listener       is what a listener uses: its TLS context, its SASL mechanisms.
client         is what a client uses: its TLS context, what it presents.
librdkafka     gives a client's settings by the names of librdkafka.
client_file    reads a client's properties file, as Java's tools do.
acls           holds the ACLs of the metadata image.
authorizer     decides what a principal may do, and keeps the audit log.
credentials    holds the SCRAM credentials of the metadata image.
tokens         checks bearer tokens.
token_source   gets a client's bearer token.
tls            makes TLS contexts.
contexts       follows the files of a TLS context.
keystores      reads keys and certificates: PEM, PKCS12, JKS.
"""

from __future__ import annotations

from .core.acl import CLUSTER, AclOperation, Resource, ResourceType
from .principal import ANONYMOUS, USER, KafkaPrincipal, SecurityProtocol

__all__ = [
    "ANONYMOUS",
    "CLUSTER",
    "USER",
    "AclOperation",
    "KafkaPrincipal",
    "Resource",
    "ResourceType",
    "SecurityProtocol",
]
