"""AlterClientQuotas (KIP-546, KIP-612): each entity is done, or refused, as a whole. Checks are those of Apache Kafka's
ClientQuotaControlManager.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import Final

from ....log.core import INT32_MAX, INT64_MAX
from ....protocol import ErrorCode, KafkaError
from ....protocol.messages.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntityData,
    AlterClientQuotasResponseEntryData,
    OpData,
)
from ...image.client_quotas import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
    ClientQuotas,
    QuotaEntity,
    entity_of,
)
from ...records import ClientQuotaRecord, MetadataRecord
from ...records import QuotaEntity as RecordEntity
from ..state import ControllerResult, ControllerState

FRACTION_MAX: Final = 1e-6
"""How far a quota that is a whole number may be off."""

_INTEGERS: Final[Mapping[str, tuple[int, str]]] = {
    PRODUCER_BYTE_RATE: (INT64_MAX, "a LONG"),
    CONSUMER_BYTE_RATE: (INT64_MAX, "a LONG"),
    CONNECTION_CREATION_RATE: (INT32_MAX, "an INT"),
}
_OF_CLIENTS: Final = frozenset({PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE})
_OF_ADDRESSES: Final = frozenset({CONNECTION_CREATION_RATE})

_Parts = Sequence[AlterClientQuotasRequestEntityData]


def alter_client_quotas(
    state: ControllerState, request: AlterClientQuotasRequest
) -> ControllerResult[AlterClientQuotasResponse]:
    """Set and remove quotas."""
    records: list[MetadataRecord] = []
    answers: dict[QuotaEntity, AlterClientQuotasResponseEntryData] = {}
    for entry in request.entries:
        entity = entity_of((part.entity_type, part.entity_name) for part in entry.entity)
        error: KafkaError | None = None
        if entity in answers:
            error = _invalid(f"Ignoring duplicate entity {_text(entry.entity)}")
        else:
            try:
                records += _changes(state.image.quotas, entity, entry)
            except KafkaError as refusal:
                error = refusal
        answers[entity] = _answer(entry.entity, error)
    if request.validate_only:
        records = []
    return ControllerResult(records, AlterClientQuotasResponse(entries=tuple(answers.values())))


def refused(request: AlterClientQuotasRequest, code: ErrorCode, message: str | None) -> AlterClientQuotasResponse:
    """Return the response that refuses every entity."""
    error = KafkaError(code, message or "")
    return AlterClientQuotasResponse(entries=tuple(_answer(entry.entity, error) for entry in request.entries))


def _answer(entity: _Parts, error: KafkaError | None) -> AlterClientQuotasResponseEntryData:
    return AlterClientQuotasResponseEntryData(
        error_code=ErrorCode.none if error is None else error.code,
        error_message=None if error is None else error.message,
        entity=tuple(
            AlterClientQuotasResponseEntityData(entity_type=part.entity_type, entity_name=part.entity_name)
            for part in entity
        ),
    )


def _changes(
    known: ClientQuotas, entity: QuotaEntity, entry: AlterClientQuotasRequestEntryData
) -> list[MetadataRecord]:
    """Return the records that change one entity. KafkaError if one of its changes is wrong."""
    keys = _keys_for(entry.entity)
    values, seen = known.of(entity), set[str]()
    records: list[MetadataRecord] = []
    for op in entry.ops:
        if op.key in seen:
            raise _invalid(f"Duplicate quota key {op.key} not updating quota for this entity {_text(entry.entity)}")
        seen.add(op.key)
        if op.remove:
            if op.key in values:
                records.append(_record(entity, op.key, 0.0, remove=True))
            continue
        _check_value(op, keys)
        if values.get(op.key) != op.value:
            records.append(_record(entity, op.key, op.value, remove=False))
    return records


def _keys_for(parts: _Parts) -> frozenset[str]:
    """Return the keys that an entity may have. INVALID_REQUEST if there is no such entity."""
    if not parts:
        raise _invalid("Invalid empty client quota entity")
    names: dict[str, str | None] = {}
    for part in parts:
        if part.entity_type in names:
            raise _invalid(f"Invalid empty client quota entity, duplicate entity entry {part.entity_type}")
        if part.entity_type not in (USER, CLIENT_ID, IP):
            raise _invalid(f"Unhandled client quota entity type: {part.entity_type}")
        if part.entity_name == "":
            raise _invalid(f"Empty {part.entity_type} not supported")
        names[part.entity_type] = part.entity_name
    if IP not in names:
        return _OF_CLIENTS
    if len(names) > 1:
        raise _invalid("Invalid quota entity combination: an ip entity has no user and no client-id")
    _check_address(names[IP])
    return _OF_ADDRESSES


def _check_address(name: str | None) -> None:
    try:
        ip_address(name or "127.0.0.1")
    except ValueError:
        raise _invalid(f"{name} is not a valid IP address") from None


def _check_value(op: OpData, keys: frozenset[str]) -> None:
    if op.key not in keys:
        raise _invalid(f"Invalid configuration key {op.key}")
    if not op.value > 0:
        raise _invalid(f"Quota {op.key} must be greater than 0")
    if op.key in _INTEGERS:
        largest, kind = _INTEGERS[op.key]
        if op.value > largest:
            raise _invalid(f"Proposed value for {op.key} is too large for {kind}.")
        if op.value % 1.0 > FRACTION_MAX:
            raise _invalid(f"{op.key} cannot be a fractional value.")


def _record(entity: QuotaEntity, key: str, value: float, *, remove: bool) -> ClientQuotaRecord:
    parts = tuple(
        RecordEntity(entity_type=kind, entity_name=name)
        for kind, name in sorted(entity, key=lambda part: (part[0] != USER, part[0]))
    )
    return ClientQuotaRecord(entity=parts, key=key, value=value, remove=remove)


def _text(parts: _Parts) -> str:
    return ", ".join(f"{part.entity_type}={part.entity_name or '<default>'}" for part in parts)


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.invalid_request, message)
