"""The bootstrap policy that an operator has configured, found by entry point.

A broker's policy is dynamic: it may change to one that is not installed here, or whose options are wrong. Then
`tier-first` acts, and the log says so once; a start refuses such a configuration (`load_bootstrap_policy`). A policy of
another package is held to the rules of `core/policy_rules.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import cast

from pydantic import BaseModel

from ..plugin_options import PluginError, parse_options
from ..plugin_registry import BOOTSTRAP_POLICY, is_built_in, load_plugin
from .core.bootstrap import BootstrapPolicy
from .core.policies import LocalLogStart, TierFirst
from .core.policy_rules import GuardedPolicy

_log = logging.getLogger(__name__)


def load_bootstrap_policy(name: str, properties: Mapping[str, str]) -> BootstrapPolicy:
    """Return the policy; its options are the properties with its prefix. Raise PluginError if it cannot be had."""
    plugin = load_plugin(BOOTSTRAP_POLICY, name)
    prefix = BOOTSTRAP_POLICY.prefix_of(name)
    options = {key.removeprefix(prefix): value for key, value in properties.items() if key.startswith(prefix)}
    build = cast(Callable[[BaseModel], BootstrapPolicy], plugin)
    policy = build(parse_options(plugin.Config, name, options, prefix))
    if is_built_in(BOOTSTRAP_POLICY, name):
        return policy
    return GuardedPolicy(policy, name, LocalLogStart(), lambda text: _log.warning("%s", text))


class ConfiguredPolicies:
    """The policy in force, built once for each configuration."""

    def __init__(self) -> None:
        self._properties: tuple[str, Mapping[str, str]] | None = None
        self._policy: BootstrapPolicy = TierFirst()

    def policy(self, name: str, properties: Mapping[str, str]) -> BootstrapPolicy:
        """Return the policy of this name; `tier-first` if it cannot be had."""
        if self._properties != (name, properties):
            self._properties = (name, properties)
            try:
                self._policy = load_bootstrap_policy(name, properties)
            except PluginError as error:
                _log.error("bootstrap.policy=%s cannot act, tier-first does: %s", name, error)
                self._policy = TierFirst()
        return self._policy
