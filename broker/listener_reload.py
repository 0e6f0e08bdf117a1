"""Follows the dynamic configs of listeners: `listener.name.<listener>.ssl.keystore.location` and its like (KIP-226).

    the image's broker configs change -> each TLS listener: settings over the file's -> new connections use them
                                                            | unusable: one ERROR line, nothing changes

What a file holds is followed without this: see `security.contexts`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from ..protocol.net import Server
from ..security.core import SecurityConfigError, is_dynamic_key, listener_settings
from .cluster.view import ClusterImage
from .config.broker_config import BrokerConfig

_log = logging.getLogger(__name__)


class ListenerReload:
    """An `ImageListener` for a broker's servers, by listener name."""

    def __init__(self, config: BrokerConfig, servers: Mapping[str, Server]) -> None:
        self._config = config
        self._servers = servers

    def on_image(self, old: ClusterImage, new: ClusterImage) -> None:
        """Take up what has changed."""
        if old.broker_configs is not new.broker_configs:
            self.apply(new)

    def apply(self, image: ClusterImage) -> None:
        """Have every TLS listener use what the image says of it."""
        config = self._config
        properties = dict(config.security_properties)
        for name in ("default", str(config.node_id)):
            configs = image.broker_configs.get(name, {})
            properties |= {key: value for key, value in configs.items() if is_dynamic_key(key)}
        for name, server in self._servers.items():
            if server.identity is None:
                continue
            try:
                settings = listener_settings(properties, name, server.identity.settings.protocol)
                server.identity.reconfigure(settings)
            except SecurityConfigError as error:
                _log.error("listener %s: its dynamic configs cannot be used, nothing changes: %s", name, error)
