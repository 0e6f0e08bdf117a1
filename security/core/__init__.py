"""The decisions about identity. Pure: bytes in, bytes out.

settings           reads Kafka's keys into the settings of a listener or of a client.
node               reads the settings of a whole node.
jaas               parses `sasl.jaas.config`.
mechanism          declares what every SASL mechanism has in common.
acl                decides what ACLs allow.
acls               holds the ACLs of the metadata image.
authorization      reads the keys of the authorizer.
plain              is SASL PLAIN.
scram              is SASL SCRAM.
scram_credential   is what a server knows of a SCRAM user.
credentials        holds the SCRAM credentials of the metadata image.
oauthbearer        is SASL OAUTHBEARER without the check of the token.
principal_mapping  maps a certificate's name to a principal.

What is exported here is imported when it is asked for: ACLs need no SCRAM.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...doors import lazy_door

if TYPE_CHECKING:
    from .acl import CLUSTER_NAME, AclBinding, AclFilter, AclPermissionType, PatternType, ResourcePattern, ResourceType
    from .acls import Acls
    from .authorization import AuthorizerSettings, authorizer_settings
    from .credentials import ScramCredentials
    from .mechanism import Accepted, Challenge, Rejected, SaslClientError, SaslServer
    from .node import (
        OPEN_METRICS,
        NodeSecurity,
        broker_security,
        controller_security,
        inter_broker_listener,
        is_loopback,
    )
    from .plain import PLAIN
    from .scram import make_credential
    from .scram_credential import (
        SCRAM_ITERATIONS_MAX,
        SCRAM_ITERATIONS_MIN,
        SCRAM_SALT_BYTES,
        SCRAM_SALT_BYTES_MIN,
        ScramCredential,
        ScramType,
        credential_of_salted_password,
    )
    from .settings import (
        ListenerSettings,
        SecurityConfigError,
        is_dynamic_key,
        is_secret,
        is_security_key,
        listener_settings,
    )

__all__ = [
    "CLUSTER_NAME",
    "OPEN_METRICS",
    "PLAIN",
    "SCRAM_ITERATIONS_MAX",
    "SCRAM_ITERATIONS_MIN",
    "SCRAM_SALT_BYTES",
    "SCRAM_SALT_BYTES_MIN",
    "Accepted",
    "AclBinding",
    "AclFilter",
    "AclPermissionType",
    "Acls",
    "AuthorizerSettings",
    "Challenge",
    "ListenerSettings",
    "NodeSecurity",
    "PatternType",
    "Rejected",
    "ResourcePattern",
    "ResourceType",
    "SaslClientError",
    "SaslServer",
    "ScramCredential",
    "ScramCredentials",
    "ScramType",
    "SecurityConfigError",
    "authorizer_settings",
    "broker_security",
    "controller_security",
    "credential_of_salted_password",
    "inter_broker_listener",
    "is_dynamic_key",
    "is_loopback",
    "is_secret",
    "is_security_key",
    "listener_settings",
    "make_credential",
]

if not TYPE_CHECKING:
    __getattr__ = lazy_door(
        __name__,
        {
            "Accepted": "mechanism",
            "AclBinding": "acl",
            "AclFilter": "acl",
            "AclPermissionType": "acl",
            "Acls": "acls",
            "AuthorizerSettings": "authorization",
            "CLUSTER_NAME": "acl",
            "Challenge": "mechanism",
            "ListenerSettings": "settings",
            "NodeSecurity": "node",
            "OPEN_METRICS": "node",
            "PLAIN": "plain",
            "PatternType": "acl",
            "Rejected": "mechanism",
            "ResourcePattern": "acl",
            "ResourceType": "acl",
            "SCRAM_ITERATIONS_MAX": "scram_credential",
            "SCRAM_ITERATIONS_MIN": "scram_credential",
            "SCRAM_SALT_BYTES": "scram_credential",
            "SCRAM_SALT_BYTES_MIN": "scram_credential",
            "SaslClientError": "mechanism",
            "SaslServer": "mechanism",
            "ScramCredential": "scram_credential",
            "ScramCredentials": "credentials",
            "ScramType": "scram_credential",
            "SecurityConfigError": "settings",
            "authorizer_settings": "authorization",
            "broker_security": "node",
            "controller_security": "node",
            "credential_of_salted_password": "scram_credential",
            "inter_broker_listener": "node",
            "is_dynamic_key": "settings",
            "is_loopback": "node",
            "is_secret": "settings",
            "is_security_key": "settings",
            "listener_settings": "settings",
            "make_credential": "scram",
        },
    )
