"""DescribeClientQuotas (KIP-546): the entities that match every component of a filter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ....protocol import ErrorCode, KafkaError
from ....protocol.messages.quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    DescribeClientQuotasResponseEntityData,
    DescribeClientQuotasResponseEntryData,
    ValueData,
)
from ...image.client_quotas import CLIENT_ID, IP, USER, ClientQuotas, QuotaEntity, entity_of

MATCH_EXACT: Final = 0
MATCH_DEFAULT: Final = 1
MATCH_SPECIFIED: Final = 2
"""Any name, or the default."""
_NAMES: Final = {
    MATCH_EXACT: "MATCH_TYPE_EXACT",
    MATCH_DEFAULT: "MATCH_TYPE_DEFAULT",
    MATCH_SPECIFIED: "MATCH_TYPE_SPECIFIED",
}


def describe_client_quotas(quotas: ClientQuotas, request: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse:
    """Return the entities that have each component; with `strict` those that have nothing else."""
    try:
        exact, types = _filter_of(request.components)
    except KafkaError as error:
        return refused(error.code, error.message)
    return DescribeClientQuotasResponse(
        error_message="", entries=tuple(_matching(quotas, exact, types, strict=request.strict))
    )


def refused(code: ErrorCode, message: str | None) -> DescribeClientQuotasResponse:
    """Return the response that describes nothing."""
    return DescribeClientQuotasResponse(error_code=code, error_message=message, entries=None)


def _filter_of(components: tuple[ComponentData, ...]) -> tuple[QuotaEntity, frozenset[str]]:
    """Return the parts that an entity must have, and the types of which it must have any part."""
    exact: dict[str, str | None] = {}
    types: set[str] = set()
    for component in components:
        kind = component.entity_type
        if not kind:
            raise _invalid("Invalid empty entity type.")
        if kind in exact or kind in types:
            raise _invalid(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in (USER, CLIENT_ID, IP):
            raise KafkaError(ErrorCode.unsupported_version, f"Unsupported entity type {kind}")
        _check_match(component)
        if component.match_type == MATCH_SPECIFIED:
            types.add(kind)
        else:
            exact[kind] = component.match
    if IP in (asked := exact.keys() | types) and len(asked) > 1:
        raise _invalid(
            "Invalid entity filter component combination. IP filter component should not be used with user or clientId"
            " filter component."
        )
    return entity_of(exact.items()), frozenset(types)


def _check_match(component: ComponentData) -> None:
    name = _NAMES.get(component.match_type)
    if name is None:
        raise _invalid(f"Unknown match type {component.match_type}")
    if component.match_type == MATCH_EXACT and component.match is None:
        raise _invalid(f"Request specified {name}, but set match string to null.")
    if component.match_type != MATCH_EXACT and component.match is not None:
        raise _invalid(f"Request specified {name}, but also specified a match string.")


def _matching(
    quotas: ClientQuotas, exact: QuotaEntity, types: frozenset[str], *, strict: bool
) -> Iterator[DescribeClientQuotasResponseEntryData]:
    for entity, values in quotas.items():
        kinds = {kind for kind, _ in entity}
        is_match = exact <= entity and types <= kinds
        if is_match and not (strict and len(entity) != len(exact) + len(types)):
            yield DescribeClientQuotasResponseEntryData(
                entity=tuple(
                    DescribeClientQuotasResponseEntityData(entity_type=kind, entity_name=name)
                    for kind, name in sorted(entity, key=lambda part: (part[0] != USER, part[0]))
                ),
                values=tuple(ValueData(key=key, value=value) for key, value in sorted(values.items())),
            )


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.invalid_request, message)
