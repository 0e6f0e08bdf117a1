"""The replica selector that an operator has configured (`replica.selector.class`), found by entry point.

A selector of another package may raise, or return a replica that it was not offered. Then the consumer reads from the
leader, and the log says so once: a plugin fails no Fetch.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import cast

from pydantic import BaseModel

from ...plugin_options import parse_options
from ...plugin_registry import REPLICA_SELECTOR, is_built_in, load_plugin
from ..config.broker_config import BrokerConfig
from ..core.read_replicas import KAFKAS_SELECTORS, ReadReplica, ReplicaSelector

_log = logging.getLogger(__name__)


class GuardedSelector:
    """A selector of another package."""

    def __init__(self, name: str, selector: ReplicaSelector) -> None:
        self._name = name
        self._selector = selector
        self._is_reported = False

    def __call__(self, rack: str, leader: ReadReplica, followers: Sequence[ReadReplica]) -> ReadReplica:
        try:
            chosen = self._selector(rack, leader, followers)
        except Exception as error:  # noqa: BLE001 - a plugin may raise anything
            self._report(f"raised {type(error).__name__}: {error}")
            return leader
        if chosen is leader or any(chosen is follower for follower in followers):
            return chosen
        self._report(f"returned {chosen!r}, which it was not offered")
        return leader

    def _report(self, what: str) -> None:
        if not self._is_reported:
            self._is_reported = True
            _log.error("replica selector %r %s; consumers read from the leader where it does that", self._name, what)


def load_replica_selector(config: BrokerConfig) -> ReplicaSelector:
    """Return the selector of a broker's configuration; without one, the leader's. Raise PluginError."""
    given = config.replica_selector_class or "leader"
    name = KAFKAS_SELECTORS.get(given, given)
    plugin = load_plugin(REPLICA_SELECTOR, name)
    options = parse_options(plugin.Config, name, config.replica_selector_config, REPLICA_SELECTOR.prefix)
    selector = cast(Callable[[BaseModel], ReplicaSelector], plugin)(options)
    return selector if is_built_in(REPLICA_SELECTOR, name) else GuardedSelector(name, selector)
