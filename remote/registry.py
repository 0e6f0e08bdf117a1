"""Builds the two plugins of the remote tier by name: storage, and remote log metadata.

| port                     | entry point group               | called as                    |
|--------------------------|---------------------------------|------------------------------|
| RemoteStorageManager     | `tierfetch.remote_storage`      | `Plugin(config)`             |
| RemoteLogMetadataManager | `tierfetch.remote_log_metadata` | `Plugin(config, context)`    |

`plugin_registry.py` finds them, as every kind of plugin; `plugin_options.py` parses their options.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from pydantic import BaseModel

from ..plugin_options import PluginError, parse_options
from ..plugin_registry import REMOTE_LOG_METADATA, REMOTE_STORAGE, load_plugin
from .metadata import RemoteLogMetadataManager
from .metadata_topic import RemoteLogMetadataContext
from .storage import RemoteStorageManager

__all__ = ["PluginError", "load_remote_log_metadata", "load_remote_storage"]


def load_remote_storage(
    name: str, config: Mapping[str, str], *, key_prefix: str = "rsm.config."
) -> RemoteStorageManager:
    """Return the storage plugin `name`, built. `key_prefix` is what error messages put before a key. PluginError."""
    plugin = load_plugin(REMOTE_STORAGE, name)
    build = cast(Callable[[BaseModel], RemoteStorageManager], plugin)
    return build(parse_options(plugin.Config, name, config, key_prefix))


def load_remote_log_metadata(
    name: str, config: Mapping[str, str], context: RemoteLogMetadataContext, *, key_prefix: str = "rlmm.config."
) -> RemoteLogMetadataManager:
    """Return the metadata plugin `name`, built but not started. PluginError."""
    plugin = load_plugin(REMOTE_LOG_METADATA, name)
    build = cast(Callable[[BaseModel, RemoteLogMetadataContext], RemoteLogMetadataManager], plugin)
    return build(parse_options(plugin.Config, name, config, key_prefix), context)
