"""What a client may do with a resource, as answers tell it that asks (KIP-430): a bit for each operation of an ACL.

There is no authorizer: everybody may do everything that the kind of resource knows.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Final


class AclOperation(IntEnum):
    """Kafka's numbers."""

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


NOT_ASKED: Final = -(2**31)
"""In the place of the bits, where the request does not want them."""


def _bits(operations: Iterable[AclOperation]) -> int:
    return sum(1 << operation for operation in operations)


_CONFIGS: Final = (AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS)
OF_GROUP: Final = _bits((AclOperation.READ, AclOperation.DELETE, AclOperation.DESCRIBE, *_CONFIGS))
OF_TOPIC: Final = OF_GROUP | _bits((AclOperation.WRITE, AclOperation.CREATE, AclOperation.ALTER))
OF_CLUSTER: Final = _bits(
    (
        AclOperation.CREATE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.IDEMPOTENT_WRITE,
        *_CONFIGS,
    )
)
