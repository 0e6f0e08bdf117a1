"""Response entities of whatever version was asked for, so that a handler is written once for all versions."""

from __future__ import annotations

import dataclasses
import datetime
from functools import lru_cache
from typing import Any

from kio.index import load_payload_module
from kio.static.constants import EntityType

NO_THROTTLE = datetime.timedelta(0)


class ResponseEntities:
    """`entities("MetadataResponseBroker", node_id=1, ...)`: fields that the version does not have are left out."""

    def __init__(self, api_key: int, version: int) -> None:
        self._module = load_payload_module(api_key, version, EntityType.response)
        self._classes: dict[str, tuple[Any, frozenset[str]]] = {}

    def has(self, name: str) -> bool:
        return hasattr(self._module, name)

    def __call__(self, name: str, /, **fields: Any) -> Any:
        entry = self._classes.get(name)
        if entry is None:
            entity = getattr(self._module, name)
            entry = self._classes[name] = (entity, frozenset(field.name for field in dataclasses.fields(entity)))
        entity, known = entry
        return entity(**{field: value for field, value in fields.items() if field in known})


@lru_cache(maxsize=256)
def _entities(api_key: int, version: int) -> ResponseEntities:
    return ResponseEntities(api_key, version)


def entities_for(request: Any) -> ResponseEntities:
    """The entities of the response to a decoded request."""
    return _entities(request.__api_key__, request.__version__)
