"""The quotas of clients as the metadata log has them, and which one holds for whom (KIP-13, KIP-55, KIP-599, KIP-612).

A quota belongs to an entity: a user, a client id, both, or an IP address; a name of None stands for the default of all
that have no quota of their own. Each key is looked up by itself, the most specific entity first:

| level | user | client id | shared by |
|---|---|---|---|
| 1 | named | named | the pair of user and client id |
| 2 | named | default | the pair |
| 3 | named | - | all client ids of the user |
| 4 | default | named | the pair |
| 5 | default | default | the pair |
| 6 | default | - | all client ids of the user |
| 7 | - | named | all users with the client id |
| 8 | - | default | all users with the client id |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from ipaddress import ip_address
from typing import Final, NamedTuple

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"

QuotaEntity = frozenset[tuple[str, str | None]]
"""Types with their names; None names the default."""


class QuotaLimit(NamedTuple):
    """The bound that holds for a client. Everybody with the same `user` and `client_id` shares it; an empty one of
    them plays no part.
    """

    bound: float
    user: str
    client_id: str


def entity_of(parts: Iterable[tuple[str, str | None]]) -> QuotaEntity:
    """Return the entity with these types and names. Addresses are compared in their usual form."""
    return frozenset((kind, _plain_address(name) if kind == IP and name is not None else name) for kind, name in parts)


def _plain_address(text: str) -> str:
    try:
        return str(ip_address(text))
    except ValueError:
        return text


class ClientQuotas:
    """All quotas by entity and key. `revision` rises with each change."""

    def __init__(self) -> None:
        self._by_entity: dict[QuotaEntity, dict[str, float]] = {}
        self.revision = 0

    @property
    def is_empty(self) -> bool:
        """Whether no client has a quota."""
        return not self._by_entity

    def put(self, entity: QuotaEntity, key: str, value: float) -> None:
        """Set a quota of an entity."""
        self._by_entity.setdefault(entity, {})[key] = value
        self.revision += 1

    def remove(self, entity: QuotaEntity, key: str) -> None:
        """Remove a quota of an entity if there is one."""
        values = self._by_entity.get(entity, {})
        values.pop(key, None)
        if not values:
            self._by_entity.pop(entity, None)
        self.revision += 1

    def of(self, entity: QuotaEntity) -> Mapping[str, float]:
        """Return the quotas that an entity itself has, by key."""
        return self._by_entity.get(entity, {})

    def items(self) -> Iterator[tuple[QuotaEntity, Mapping[str, float]]]:
        """Yield the entities with their quotas, in the order in which they came."""
        yield from self._by_entity.items()

    def client_limit(self, key: str, user: str, client_id: str) -> QuotaLimit | None:
        """Return what holds for a client by the module's table; None if nothing does."""
        if not self._by_entity:
            return None
        pair, of_user, of_client = (user, client_id), (user, ""), ("", client_id)
        levels: tuple[tuple[tuple[tuple[str, str | None], ...], tuple[str, str]], ...] = (
            (((USER, user), (CLIENT_ID, client_id)), pair),
            (((USER, user), (CLIENT_ID, None)), pair),
            (((USER, user),), of_user),
            (((USER, None), (CLIENT_ID, client_id)), pair),
            (((USER, None), (CLIENT_ID, None)), pair),
            (((USER, None),), of_user),
            (((CLIENT_ID, client_id),), of_client),
            (((CLIENT_ID, None),), of_client),
        )
        for parts, shared_by in levels:
            bound = self._by_entity.get(frozenset(parts), {}).get(key)
            if bound is not None:
                return QuotaLimit(bound, *shared_by)
        return None

    def address_limit(self, address: str) -> float | None:
        """Return how many connections an address may make in a second; None if there is no quota for it."""
        for name in (_plain_address(address), None):
            bound = self._by_entity.get(frozenset({(IP, name)}), {}).get(CONNECTION_CREATION_RATE)
            if bound is not None:
                return bound
        return None
