"""The one ACL that operators create at the end of a run, and what finds it."""

from __future__ import annotations

from typing import Final, TypedDict

from ....protocol.messages.security import AclCreation
from ....protocol.wire import ResourceType
from ....security import AclOperation
from ....security.core import AclPermissionType, PatternType

PRINCIPAL: Final = "User:looks"
ANY: Final = 1
"""Any type of resource, in a filter of ACLs."""

ACL: Final = AclCreation(
    resource_type=int(ResourceType.TOPIC),
    resource_name="looks",
    principal=PRINCIPAL,
    host="*",
    operation=int(AclOperation.READ),
    permission_type=int(AclPermissionType.ALLOW),
)


class _OfPrincipal(TypedDict):
    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int


def of_its_principal() -> _OfPrincipal:
    """Return the filter of all ACLs of the one principal that gets any."""
    return {
        "resource_type_filter": ANY,
        "resource_name_filter": None,
        "pattern_type_filter": int(PatternType.ANY),
        "principal_filter": PRINCIPAL,
        "host_filter": None,
        "operation": int(AclOperation.ANY),
        "permission_type": int(AclPermissionType.ANY),
    }
