"""Access control lists: what an ACL says, and whether ACLs allow an operation, as Kafka's StandardAuthorizer decides.

An ACL allows or denies a principal, from a host, an operation on the resources that its pattern matches.

| pattern type | matches the resource |
|---|---|
| LITERAL | of that very name; of any name, if the pattern's is `*` |
| PREFIXED | whose name begins with the pattern's |

A request is decided in this order:

1. The principal is a super user: allowed.
2. An ACL denies the operation, or ALL, to the principal or `User:*`, from its host or `*`: denied.
3. An ACL allows the operation, ALL, or an operation that implies it (`IMPLIED_BY`): allowed.
4. No ACL matches the resource at all: as `allow.everyone.if.no.acl.found` says. Otherwise denied.

READ, WRITE, DELETE and ALTER imply DESCRIBE; ALTER_CONFIGS implies DESCRIBE_CONFIGS. A denial implies nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from enum import IntEnum
from typing import Final

from ...light_dataclass import dataclass
from ..principal import USER, KafkaPrincipal


class ResourceType(IntEnum):
    """Kafka's numbers."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """Kafka's numbers. ANY and MATCH are for filters only."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    """Kafka's numbers. ANY is for filters only."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclPermissionType(IntEnum):
    """Kafka's numbers. ANY is for filters only."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


WILDCARD: Final = "*"
CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the one CLUSTER resource."""
WILDCARD_PRINCIPAL: Final = str(KafkaPrincipal(USER, WILDCARD))

IMPLIED_BY: Final[Mapping[AclOperation, frozenset[AclOperation]]] = {
    AclOperation.DESCRIBE: frozenset(
        {AclOperation.DESCRIBE, AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER}
    ),
    AclOperation.DESCRIBE_CONFIGS: frozenset({AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS}),
}
"""The operations whose ALLOW also allows the key; any other operation is allowed by itself only, and all by ALL."""


@dataclass(frozen=True, slots=True)
class ResourcePattern:
    """What an ACL applies to."""

    resource_type: ResourceType
    name: str
    pattern_type: PatternType = PatternType.LITERAL


@dataclass(frozen=True, slots=True)
class Resource:
    """What a request is about."""

    resource_type: ResourceType
    name: str


CLUSTER: Final = Resource(ResourceType.CLUSTER, CLUSTER_NAME)


@dataclass(frozen=True, slots=True)
class AclBinding:
    """One ACL. `principal` and `host` may be wildcards."""

    pattern: ResourcePattern
    principal: str
    host: str
    operation: AclOperation
    permission: AclPermissionType


@dataclass(frozen=True, slots=True)
class AclFilter:
    """The ACLs that DescribeAcls shows and DeleteAcls deletes; None and ANY accept everything.

    Pattern type MATCH accepts what applies to the resource `name`: literal, wildcard and prefixed ACLs.
    """

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: AclPermissionType = AclPermissionType.ANY

    def accepts(self, acl: AclBinding) -> bool:
        """Return whether `acl` passes every field."""
        return (
            self._accepts_pattern(acl.pattern)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (AclOperation.ANY, acl.operation)
            and self.permission in (AclPermissionType.ANY, acl.permission)
        )

    def _accepts_pattern(self, pattern: ResourcePattern) -> bool:
        if self.resource_type not in (ResourceType.ANY, pattern.resource_type):
            return False
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, pattern.pattern_type):
            return False
        if self.name is None or self.name == pattern.name:
            return True
        return self.pattern_type is PatternType.MATCH and _applies_to(pattern, self.name)


def _applies_to(pattern: ResourcePattern, name: str) -> bool:
    if pattern.pattern_type is PatternType.PREFIXED:
        return name.startswith(pattern.name)
    return pattern.name in (name, WILDCARD)


@dataclass(frozen=True, slots=True)
class AclRules:
    """What the configuration says. `super_users` are principals as text."""

    super_users: frozenset[str] = frozenset()
    allow_if_no_acl: bool = False


Requester = tuple[str, str]
"""Principal and host, both as text."""


@dataclass(slots=True)
class AclIndex:
    """ACLs by the patterns that a resource can match, so that a decision looks at those alone.

    A look-up costs a dictionary access for each distinct length of the prefixes of the resource's type.
    """

    _by_pattern: dict[ResourcePattern, dict[AclBinding, int]] = field(default_factory=dict)
    """How often each ACL was added, by pattern: Kafka's log may hold one under two ids."""
    _prefix_lengths: dict[ResourceType, dict[int, int]] = field(default_factory=dict)
    """How many patterns there are of each length."""

    def add(self, acl: AclBinding) -> None:
        """Count `acl` from now on."""
        acls = self._by_pattern.get(acl.pattern)
        if acls is None:
            acls = self._by_pattern[acl.pattern] = {}
            self._count(acl.pattern, 1)
        acls[acl] = acls.get(acl, 0) + 1

    def remove(self, acl: AclBinding) -> None:
        """Undo one `add` of `acl`."""
        acls = self._by_pattern[acl.pattern]
        acls[acl] -= 1
        if not acls[acl]:
            del acls[acl]
        if not acls:
            del self._by_pattern[acl.pattern]
            self._count(acl.pattern, -1)

    def _count(self, pattern: ResourcePattern, change: int) -> None:
        if pattern.pattern_type is not PatternType.PREFIXED:
            return
        lengths = self._prefix_lengths.setdefault(pattern.resource_type, {})
        lengths[len(pattern.name)] = lengths.get(len(pattern.name), 0) + change
        if not lengths[len(pattern.name)]:
            del lengths[len(pattern.name)]

    def __iter__(self) -> Iterator[AclBinding]:
        return (acl for acls in self._by_pattern.values() for acl in acls)

    def allows(self, rules: AclRules, requester: Requester, operation: AclOperation, resource: Resource) -> bool:
        """Return whether the requester may do the operation on the resource."""
        if requester[0] in rules.super_users:
            return True
        matching = list(self._matching(resource))
        if not matching:
            return rules.allow_if_no_acl
        return decides(matching, requester, operation)

    def allows_any(
        self, rules: AclRules, requester: Requester, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        """Return whether some resource of the type may exist on which the operation is allowed (KIP-679)."""
        principal, _ = requester
        if principal in rules.super_users:
            return True
        acls = [acl for acl in self if acl.pattern.resource_type is resource_type and _is_about(acl, requester)]
        denying = [acl.pattern for acl in acls if _denies(acl, operation)]
        if any(_covers_all(pattern) for pattern in denying):
            return False
        if rules.allow_if_no_acl:
            return True
        return any(not _is_dominated(acl.pattern, denying) for acl in acls if _allows(acl, operation))

    def _matching(self, resource: Resource) -> Iterator[AclBinding]:
        kind, name = resource.resource_type, resource.name
        yield from self._by_pattern.get(ResourcePattern(kind, name), ())
        if name != WILDCARD:
            yield from self._by_pattern.get(ResourcePattern(kind, WILDCARD), ())
        for length in self._prefix_lengths.get(kind, ()):
            if length <= len(name):
                yield from self._by_pattern.get(ResourcePattern(kind, name[:length], PatternType.PREFIXED), ())


def decides(matching: Iterable[AclBinding], requester: Requester, operation: AclOperation) -> bool:
    """Return what ACLs that match the resource decide: deny before allow, and no word is a no."""
    about = [acl for acl in matching if _is_about(acl, requester)]
    return not any(_denies(acl, operation) for acl in about) and any(_allows(acl, operation) for acl in about)


def _is_about(acl: AclBinding, requester: Requester) -> bool:
    principal, host = requester
    return acl.principal in (principal, WILDCARD_PRINCIPAL) and acl.host in (host, WILDCARD)


def _denies(acl: AclBinding, operation: AclOperation) -> bool:
    return acl.permission is AclPermissionType.DENY and acl.operation in (operation, AclOperation.ALL)


def _allows(acl: AclBinding, operation: AclOperation) -> bool:
    if acl.permission is not AclPermissionType.ALLOW:
        return False
    return acl.operation is AclOperation.ALL or acl.operation in IMPLIED_BY.get(operation, (operation,))


def _covers_all(pattern: ResourcePattern) -> bool:
    if pattern.pattern_type is PatternType.PREFIXED:
        return pattern.name == ""
    return pattern.name == WILDCARD


def _is_dominated(pattern: ResourcePattern, denying: Iterable[ResourcePattern]) -> bool:
    """Return whether a denial covers every resource of an allowing pattern."""
    return any(
        denial == pattern
        or (
            denial.pattern_type is PatternType.PREFIXED
            and not _covers_all(pattern)
            and pattern.name.startswith(denial.name)
        )
        for denial in denying
    )
