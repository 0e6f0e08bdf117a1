"""The ACLs of a cluster, as the metadata image has them."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from .acl import AclBinding, AclIndex


class Acls:
    """ACLs by id, and the index that decides by them. Ids are Kafka's: two may stand for equal ACLs. `revision` rises
    with each change.
    """

    def __init__(self) -> None:
        self._by_id: dict[UUID, AclBinding] = {}
        self.index = AclIndex()
        self.revision = 0

    def put(self, acl_id: UUID, acl: AclBinding) -> None:
        """Set the ACL of an id."""
        self.remove(acl_id)
        self._by_id[acl_id] = acl
        self.revision += 1
        self.index.add(acl)

    def remove(self, acl_id: UUID) -> None:
        """Remove the ACL of an id if there is one."""
        acl = self._by_id.pop(acl_id, None)
        if acl is not None:
            self.revision += 1
            self.index.remove(acl)

    def items(self) -> Iterator[tuple[UUID, AclBinding]]:
        """Yield the ACLs with their ids, in the order in which they came."""
        yield from self._by_id.items()
