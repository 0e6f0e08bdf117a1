"""What the sender of one request may do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, TypeVar
from uuid import UUID

from ...light_dataclass import dataclass
from ...security import CLUSTER, AclOperation, Authorizer, Resource, ResourceType
from ..messages.base import Message, ResponseT
from ..net.dispatch import RequestContext
from ..net.pacing import Slices
from ..net.slicing import SLICED_ELEMENTS_MIN

JUDGE_WEIGHT: Final = 5
"""What it costs on the loop to decide about a resource, in elements of `pace`."""

TopicName = Callable[[UUID], str | None]
"""Returns the name of the topic that has an id, None if none has."""

OPERATIONS: Final[Mapping[ResourceType, tuple[AclOperation, ...]]] = {
    ResourceType.TOPIC: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DESCRIBE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        AclOperation.READ,
        AclOperation.DESCRIBE,
        AclOperation.DELETE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        AclOperation.CREATE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
    ),
}
"""The operations that a kind of resource knows, as AclEntry.supportedOperations."""


@dataclass(frozen=True, slots=True)
class Access:
    """The rights of one request's sender."""

    authorizer: Authorizer
    context: RequestContext
    topic_name: TopicName

    @property
    def _requester(self) -> tuple[str, str]:
        return str(self.context.principal), self.context.client_host

    def may(self, operation: AclOperation, resource_type: ResourceType, name: str, *, is_logged: bool = True) -> bool:
        """Return whether the operation is allowed on the resource of that name."""
        resource = Resource(resource_type, name)
        return self.authorizer.allows(self._requester, operation, resource, self.context.api.name, is_logged=is_logged)

    def may_topic(self, operation: AclOperation, name: str, *, is_logged: bool = True) -> bool:
        """Return whether the operation is allowed on the topic."""
        return self.may(operation, ResourceType.TOPIC, name, is_logged=is_logged)

    def may_group(self, operation: AclOperation, name: str, *, is_logged: bool = True) -> bool:
        """Return whether the operation is allowed on the group."""
        return self.may(operation, ResourceType.GROUP, name, is_logged=is_logged)

    def may_cluster(self, operation: AclOperation, *, is_logged: bool = True) -> bool:
        """Return whether the operation is allowed on the cluster."""
        return self.may(operation, ResourceType.CLUSTER, CLUSTER.name, is_logged=is_logged)

    def may_transaction(self, operation: AclOperation, transactional_id: str, *, is_logged: bool = True) -> bool:
        """Return whether the operation is allowed on the transactional id."""
        return self.may(operation, ResourceType.TRANSACTIONAL_ID, transactional_id, is_logged=is_logged)

    def may_any_topic(self, operation: AclOperation) -> bool:
        """Return whether the operation is allowed on some topic."""
        return self.authorizer.allows_any(self._requester, operation, ResourceType.TOPIC, self.context.api.name)

    def name_of(self, name: str | None, topic_id: UUID | None) -> str | None:
        """Return a topic's name; None if only an id is given, and no topic has it."""
        if name or topic_id is None:
            return name
        return self.topic_name(topic_id)

    def may_named(
        self, operation: AclOperation, name: str | None, topic_id: UUID | None, *, is_logged: bool = True
    ) -> bool:
        """Return whether the operation is allowed on the topic. An id that no topic has is left to the handler."""
        found = self.name_of(name, topic_id)
        return found is None or self.may_topic(operation, found, is_logged=is_logged)

    def operations(self, resource_type: ResourceType, name: str) -> int:
        """Return what is allowed on a resource as bits (KIP-430)."""
        known: Iterable[AclOperation] = OPERATIONS[resource_type]
        return sum(1 << operation for operation in known if self.may(operation, resource_type, name, is_logged=False))


RequestT = TypeVar("RequestT", bound=Message)
Next = Callable[[RequestContext, RequestT], Awaitable[ResponseT]]
"""The handler of one API, to which a gate lets requests through."""
GateOf = Callable[[Access, Next[RequestT, ResponseT], RequestT], Awaitable[ResponseT]]
"""`await gate(access, handler, request)` is the response: of the handler, or a denial."""
Gate = GateOf[Message, Message | None]
"""The gate of some API, as a table of all APIs holds it."""

Item = TypeVar("Item")
Result = TypeVar("Result")


def each_item(
    items: Callable[[RequestT], tuple[Item, ...]],
    kept: Callable[[RequestT, tuple[Item, ...]], RequestT],
    denial: Callable[[Access, Item], Result | None],
    joined: Callable[[ResponseT, tuple[Result, ...]], ResponseT],
    *,
    is_exempt: Callable[[Access], bool] = lambda access: False,
) -> GateOf[RequestT, ResponseT]:
    """Return the gate of a request whose items are allowed or denied one by one.

    `denial` returns the result of a denied item, or None for one that is allowed. The handler gets a request that is
    `kept` to the allowed items; the denials are `joined` with its response.
    """

    async def gate(access: Access, handler: Next[RequestT, ResponseT], request: RequestT) -> ResponseT:
        if is_exempt(access):
            return await handler(access.context, request)
        judged = [(item, denial(access, item)) for item in items(request)]
        denied = tuple(result for _, result in judged if result is not None)
        if not denied:
            return await handler(access.context, request)
        allowed = tuple(item for item, result in judged if result is None)
        return joined(await handler(access.context, kept(request, allowed)), denied)

    return gate


def split(items: Iterable[Item], is_allowed: Callable[[Item], bool]) -> tuple[tuple[Item, ...], tuple[Item, ...]]:
    """Return what is allowed, and what is denied, each in its order."""
    allowed: list[Item] = []
    denied: list[Item] = []
    for item in items:
        (allowed if is_allowed(item) else denied).append(item)
    return tuple(allowed), tuple(denied)


async def shown(items: Iterable[Item], is_allowed: Callable[[Item], bool]) -> tuple[Item, ...]:
    """Return what is allowed, of an answer of any length, within the loop's share."""
    allowed: list[Item] = []
    async for some in Slices(items, weight=JUDGE_WEIGHT, free=SLICED_ELEMENTS_MIN):
        allowed += [item for item in some if is_allowed(item)]
    return tuple(allowed)
