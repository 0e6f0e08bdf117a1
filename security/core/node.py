"""The security of a node: of each of its listeners, and of its connections to other nodes. Pure.

| connection to | uses the keys of | mechanism |
|---|---|---|
| brokers | the inter-broker listener (`inter_broker_listener`) | `sasl.mechanism.inter.broker.protocol` |
| controllers | the first of `controller.listener.names` | `sasl.mechanism.controller.protocol` |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...light_dataclass import dataclass
from ..principal import SecurityProtocol
from . import plain
from .settings import (
    PLAINTEXT_CLIENT,
    ClientSettings,
    ListenerSettings,
    SecurityConfigError,
    listener_settings,
    node_client_settings,
    protocol_map,
    protocol_of,
)

METRICS_LISTENER = "METRICS"
OPEN_METRICS = ListenerSettings(METRICS_LISTENER, SecurityProtocol.PLAINTEXT)
INTER_BROKER_MECHANISM = "sasl.mechanism.inter.broker.protocol"
CONTROLLER_MECHANISM = "sasl.mechanism.controller.protocol"


@dataclass(frozen=True, slots=True)
class NodeSecurity:
    """`listeners` are this node's own, by name."""

    listeners: Mapping[str, ListenerSettings]
    to_brokers: ClientSettings = PLAINTEXT_CLIENT
    to_controllers: ClientSettings = PLAINTEXT_CLIENT
    controller_protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    metrics: ListenerSettings = OPEN_METRICS


def controller_security(properties: Mapping[str, str], listener: str) -> NodeSecurity:
    """Return the security of a controller. SecurityConfigError."""
    protocol = protocol_of(properties, listener, is_controller=True)
    return NodeSecurity(
        {listener: listener_settings(properties, listener, protocol)},
        to_controllers=node_client_settings(properties, listener, protocol, CONTROLLER_MECHANISM),
        controller_protocol=protocol,
        metrics=metrics_settings(properties),
    )


def broker_security(properties: Mapping[str, str], listeners: Sequence[str], controller_listener: str) -> NodeSecurity:
    """Return the security of a broker with these listeners. SecurityConfigError."""
    protocols = {name: protocol_of(properties, name) for name in listeners}
    internal = inter_broker_listener(properties, listeners)
    to_controllers = protocol_of(properties, controller_listener, is_controller=True)
    return NodeSecurity(
        {name: listener_settings(properties, name, protocol) for name, protocol in protocols.items()},
        to_brokers=node_client_settings(properties, internal, protocols[internal], INTER_BROKER_MECHANISM),
        to_controllers=node_client_settings(properties, controller_listener, to_controllers, CONTROLLER_MECHANISM),
        controller_protocol=to_controllers,
        metrics=metrics_settings(properties),
    )


def metrics_settings(properties: Mapping[str, str]) -> ListenerSettings:
    """Return the security of the metrics endpoint, which has the keys of a listener METRICS. SecurityConfigError.

    PLAINTEXT unless the map says otherwise. SASL's PLAIN is HTTP's Basic authentication there.
    """
    protocol = protocol_map(properties).get(METRICS_LISTENER, SecurityProtocol.PLAINTEXT)
    settings = listener_settings(properties, METRICS_LISTENER, protocol)
    if set(settings.mechanisms) - {plain.PLAIN}:
        raise SecurityConfigError(
            f"listener.name.metrics.sasl.enabled.mechanisms: expected {plain.PLAIN}, which HTTP has as Basic"
        )
    return settings


def inter_broker_listener(properties: Mapping[str, str], listeners: Sequence[str]) -> str:
    """Return the name of the listener that brokers use among themselves. SecurityConfigError.

    With one listener there is no choice. Kafka needs the key then too, unless that listener is PLAINTEXT.
    """
    name, protocol = properties.get("inter.broker.listener.name"), properties.get("security.inter.broker.protocol")
    if name is not None and protocol is not None:
        raise SecurityConfigError(
            "inter.broker.listener.name and security.inter.broker.protocol are both set: expected one of them"
        )
    if name is not None:
        if name.upper() not in listeners:
            raise SecurityConfigError(
                f"inter.broker.listener.name={name}: expected one of the listeners ({', '.join(listeners)})"
            )
        return name.upper()
    if protocol is None and len(listeners) == 1:
        return listeners[0]
    wanted = (protocol or SecurityProtocol.PLAINTEXT.name).upper()
    found = [item for item in listeners if protocol_of(properties, item).name == wanted]
    if not found:
        raise SecurityConfigError(
            f"security.inter.broker.protocol={wanted}: expected a listener of that protocol; name the one that "
            "brokers use in inter.broker.listener.name"
        )
    return found[0]


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches what listens on the host."""
    return host == "localhost" or host.startswith("127.") or host == "::1"


def openness(listener: ListenerSettings, host: str) -> str | None:
    """Return what is open on a listener that others than this machine can reach, None if nothing is."""
    if is_loopback(host):
        return None
    match listener.protocol:
        case SecurityProtocol.PLAINTEXT:
            return (
                "no encryption and no authentication: every host that reaches it may read, write, administer, and pose"
                " as a node"
            )
        case SecurityProtocol.SASL_PLAINTEXT:
            return "no encryption: records are readable on the way, and so are the passwords of PLAIN"
        case SecurityProtocol.SSL if listener.tls is not None and listener.tls.client_auth.value != "required":
            return "no authentication: clients without a certificate are User:ANONYMOUS (ssl.client.auth)"
    return None
