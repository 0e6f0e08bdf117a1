"""What a client may do with a resource, as responses report it on request (KIP-430): a bit for each operation of an
ACL.

Without an authorizer every client may do everything that the kind of resource knows; with one, `authorization` reports.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ..security import AclOperation

OPERATIONS_NOT_ASKED: Final = -(2**31)
"""In the place of the bits, where the request does not ask for them."""


def _bits(operations: Iterable[AclOperation]) -> int:
    return sum(1 << operation for operation in operations)


_CONFIGS: Final = (AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS)
GROUP_OPERATIONS: Final = _bits((AclOperation.READ, AclOperation.DELETE, AclOperation.DESCRIBE, *_CONFIGS))
TOPIC_OPERATIONS: Final = GROUP_OPERATIONS | _bits((AclOperation.WRITE, AclOperation.CREATE, AclOperation.ALTER))
CLUSTER_OPERATIONS: Final = _bits(
    (
        AclOperation.CREATE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.IDEMPOTENT_WRITE,
        *_CONFIGS,
    )
)
