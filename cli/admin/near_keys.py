"""What an operator probably meant by a config that the cluster does not know.

The guess is the tool's and not the controller's: it takes a third of a millisecond, which a request with thousands of
unknown keys could multiply on the event loop. So it helps with any cluster. A key that Apache Kafka knows and tierfetch
does not is refused by the cluster or by nobody, never here.

A cluster takes the removal of any key, for what is not set can be removed; a slip would pass for success. So a key to
remove that neither tierfetch nor the cluster knows is refused here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

import click

from ...protocol import ErrorCode, KafkaError
from ...protocol.wire import GROUP_CONFIGS, ResourceType
from ...security.core import is_dynamic_key

LENGTH_MAX: Final = 200
"""A longer key is no slip of the pen, and would be compared for long."""


@contextmanager
def suggesting_keys(resource_type: int, keys: Iterable[str]) -> Iterator[None]:
    """Add to an INVALID_CONFIG of this block what the first unknown one of these keys may have been meant for."""
    try:
        yield
    except KafkaError as error:
        if error.code is not ErrorCode.invalid_config:
            raise
        raise KafkaError(error.code, f"{error.message}{_guess(resource_type, keys)}") from None


def near_key(keys: Iterable[str], known: Collection[str], offered: Collection[str]) -> str | None:
    """Return the offered key that is nearest to the first unknown one, None if all are known or none is near."""
    from ...log.core import nearest_key

    for key in keys:
        if key not in known and len(key) <= LENGTH_MAX:
            if key.removeprefix("log.") in offered:  # a broker's name of a topic's config
                return key.removeprefix("log.")
            if (nearest := nearest_key(key, offered)) is not None:
                return nearest
    return None


def unknown_removals(resource_type: int, keys: Iterable[str]) -> list[str]:
    """Return the keys that tierfetch does not know: the cluster may."""
    known, _ = _known(resource_type)
    return [
        key for key in keys if key not in known and not (resource_type == ResourceType.BROKER and is_dynamic_key(key))
    ]


def check_removals(resource_type: int, keys: Iterable[str], described: Collection[str]) -> None:
    """ClickException for the first key that is neither known here nor `described` by the cluster."""
    for key in unknown_removals(resource_type, keys):
        if key not in described:
            raise click.ClickException(f"unknown config {key!r}, nothing was changed{_guess(resource_type, [key])}")


def _guess(resource_type: int, keys: Iterable[str]) -> str:
    near = near_key(keys, *_known(resource_type))
    return "" if near is None else f"; did you mean {near!r}?"


def _known(resource_type: int) -> tuple[Collection[str], Collection[str]]:
    """Return all keys of such a resource, and those that may be set."""
    if resource_type == ResourceType.TOPIC:
        from ...log.core import TOPIC_CONFIG_TYPES

        return TOPIC_CONFIG_TYPES, TOPIC_CONFIG_TYPES
    if resource_type == ResourceType.GROUP:
        return GROUP_CONFIGS, GROUP_CONFIGS
    from ...broker.config import DYNAMIC_KEYS, KEYS, OF_CONTROLLERS

    return KEYS | DYNAMIC_KEYS | OF_CONTROLLERS, DYNAMIC_KEYS | OF_CONTROLLERS
