"""Connections: clients, listeners, their limits, and dispatch to handlers.

dispatch           declares what a handler gets and returns.
server             is a listener: it accepts, limits and ends connections.
server_limits      declares the limits of one listener.
admission          decides which connections a listener accepts.
request_memory     bounds the memory of its requests, and decides which connection reads on.
object_memory      bounds what large requests that only ask are made into, and decides whose turn it is.
arrival            watches the request that is arriving on one connection.
tls_transport      is asyncio's TLS as both ends use it.
dialing            connects to an address that another node has named, over TLS or not.
tls_acceptor       is the TLS handshake of an accepted connection.
gates              say which requests a connection may send, and as which principal.
sasl               answers SaslHandshake and SaslAuthenticate.
server_connection  is one accepted connection: requests in, responses out in the same order.
client             keeps connections to brokers by address, shared by their users.
client_connection  is one connection to a broker: many requests in flight, each with a deadline.
slicing            handles large requests piece by piece.
stream             holds what both ends of a connection share.
clock              is the event loop's clock.
deadline           waits for a future for a limited time.
pacing             cuts long work into slices, and limits the slices of one iteration of the event loop.
fan_out            does the same for many items: some at a time, begun at that pace.
batch_reading      reads the records of a batch in such slices.
turns              limits how many calls run at a time, in order of arrival.
loopback           finds a port that is known before anything listens on it.
service            is what starts and stops as one: a broker, a controller, a replica of the quorum.

Other folders import what is exported here. It is imported when it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...doors import lazy_door

if TYPE_CHECKING:
    from .batch_reading import reading_batch
    from .client import Address, BrokerUnavailableError, ClientLimits, KafkaClient
    from .client_connection import RequestTimedOutError
    from .clock import monotonic_ms
    from .deadline import done_within
    from .dialing import connect, resolve
    from .dispatch import (
        FinalizedFeatures,
        Handler,
        Handlers,
        RequestContext,
        SupportedFeature,
        TopicRights,
        api_versions_error,
        api_versions_response,
    )
    from .fan_out import for_each
    from .gates import body_steps
    from .loopback import LOOPBACK, reserved_port
    from .pacing import SLICE_ELEMENTS, Portions, Slices, exhausted, pace
    from .server import Server
    from .server_limits import UNLIMITED, ServerLimits
    from .service import Service, cancelled, closing
    from .slicing import SLICED_ELEMENTS_MIN, Split, answered, answered_in_pieces
    from .turns import Turns

__all__ = [
    "LOOPBACK",
    "SLICED_ELEMENTS_MIN",
    "SLICE_ELEMENTS",
    "UNLIMITED",
    "Address",
    "BrokerUnavailableError",
    "ClientLimits",
    "FinalizedFeatures",
    "Handler",
    "Handlers",
    "KafkaClient",
    "Portions",
    "RequestContext",
    "RequestTimedOutError",
    "Server",
    "ServerLimits",
    "Service",
    "Slices",
    "Split",
    "SupportedFeature",
    "TopicRights",
    "Turns",
    "answered",
    "answered_in_pieces",
    "api_versions_error",
    "api_versions_response",
    "body_steps",
    "cancelled",
    "closing",
    "connect",
    "done_within",
    "exhausted",
    "for_each",
    "monotonic_ms",
    "pace",
    "reading_batch",
    "reserved_port",
    "resolve",
]

if not TYPE_CHECKING:
    __getattr__ = lazy_door(
        __name__,
        {
            "Address": "client",
            "BrokerUnavailableError": "client",
            "ClientLimits": "client",
            "FinalizedFeatures": "dispatch",
            "Handler": "dispatch",
            "Handlers": "dispatch",
            "KafkaClient": "client",
            "LOOPBACK": "loopback",
            "Portions": "pacing",
            "RequestContext": "dispatch",
            "RequestTimedOutError": "client_connection",
            "SLICED_ELEMENTS_MIN": "slicing",
            "SLICE_ELEMENTS": "pacing",
            "Server": "server",
            "ServerLimits": "server_limits",
            "Service": "service",
            "Slices": "pacing",
            "Split": "slicing",
            "SupportedFeature": "dispatch",
            "TopicRights": "dispatch",
            "Turns": "turns",
            "UNLIMITED": "server_limits",
            "answered": "slicing",
            "answered_in_pieces": "slicing",
            "api_versions_error": "dispatch",
            "api_versions_response": "dispatch",
            "body_steps": "gates",
            "cancelled": "service",
            "closing": "service",
            "connect": "dialing",
            "done_within": "deadline",
            "exhausted": "pacing",
            "for_each": "fan_out",
            "monotonic_ms": "clock",
            "pace": "pacing",
            "reading_batch": "batch_reading",
            "reserved_port": "loopback",
            "resolve": "dialing",
        },
    )
