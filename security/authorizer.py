"""The authorizer: a port, and Kafka's StandardAuthorizer behind it, with its audit log.

Each decision is a line of the logger `kafka.authorizer.logger`: a denial at INFO, an allowance at DEBUG, as in Kafka.
Denials can be had by anyone who reaches a listener, so at most `LINES_PER_S` of them are written in a second; the next
line says how many were left out. A line names principal, host, operation, resource and request, never a secret.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, Protocol

from ..limited_log import Kind, LineBudget
from .core.acl import AclOperation, AclRules, Requester, Resource, ResourceType
from .core.acls import Acls

AUDIT_LOGGER: Final = "kafka.authorizer.logger"
LINES_PER_S: Final = 50

_audit = logging.getLogger(AUDIT_LOGGER)
_DENIAL: Final = Kind(AUDIT_LOGGER, logging.INFO, "denied")


class Authorizer(Protocol):
    """Decides what a requester may do."""

    @property
    def revision(self) -> int:
        """A number that rises with each change of what is allowed."""

    def allows(
        self, requester: Requester, operation: AclOperation, resource: Resource, request: str, *, is_logged: bool = True
    ) -> bool:
        """Return whether the operation is allowed. `request` is the API's name, for the audit log; a decision that
        only filters what is shown is not logged.
        """

    def allows_any(
        self, requester: Requester, operation: AclOperation, resource_type: ResourceType, request: str
    ) -> bool:
        """Return whether the operation is allowed on some resource of the type (KIP-679)."""


class StandardAuthorizer:
    """Decides by the ACLs of the metadata image, which `acls` returns. `now_s` is a monotonic clock."""

    def __init__(
        self,
        rules: AclRules,
        acls: Callable[[], Acls],
        now_s: Callable[[], float],
        is_ready: Callable[[], bool] = lambda: True,
    ) -> None:
        """Until `is_ready`, while the image is still loaded, super users alone are allowed anything."""
        self._is_ready = is_ready
        self._rules = rules
        self._acls = acls
        self._now_s = now_s
        self._budget = LineBudget(period_s=1, lines_max=LINES_PER_S)

    @property
    def revision(self) -> int:
        """The ACLs' revision."""
        return self._acls().revision

    def allows(
        self, requester: Requester, operation: AclOperation, resource: Resource, request: str, *, is_logged: bool = True
    ) -> bool:
        """Return whether the ACLs allow the operation."""
        is_allowed = self._may_ask(requester) and self._acls().index.allows(self._rules, requester, operation, resource)
        if is_logged:
            self._log(requester, operation, _name(resource), request, is_allowed=is_allowed)
        return is_allowed

    def allows_any(
        self, requester: Requester, operation: AclOperation, resource_type: ResourceType, request: str
    ) -> bool:
        """Return whether the ACLs allow the operation on some resource of the type."""
        is_allowed = self._may_ask(requester) and self._acls().index.allows_any(
            self._rules, requester, operation, resource_type
        )
        self._log(requester, operation, f"any {resource_type.name.title()}", request, is_allowed=is_allowed)
        return is_allowed

    def _may_ask(self, requester: Requester) -> bool:
        return requester[0] in self._rules.super_users or self._is_ready()

    def _log(
        self, requester: Requester, operation: AclOperation, resource: str, request: str, *, is_allowed: bool
    ) -> None:
        level = logging.DEBUG if is_allowed else logging.INFO
        if not _audit.isEnabledFor(level) or (not is_allowed and not self._may_write()):
            return
        principal, host = requester
        _audit.log(
            level,
            "Principal = %s is %s operation = %s from host = %s on resource = %s for request = %s",
            principal,
            "Allowed" if is_allowed else "Denied",
            operation.name,
            host,
            resource,
            request,
        )

    def _may_write(self) -> bool:
        now_s = self._now_s()
        for _, left_out in self._budget.take_left_out(now_s):
            _audit.info("%d denials before were not written: more than %d in a second", left_out, LINES_PER_S)
        return self._budget.admits(_DENIAL, "", now_s, source_lines_max=LINES_PER_S)


def _name(resource: Resource) -> str:
    """Return the resource as Kafka's log shows it. Names come from clients: control characters are escaped."""
    return f"{resource.resource_type.name.title().replace('_', '')}:LITERAL:{resource.name!r}"
