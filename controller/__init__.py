"""The KRaft controller: it decides what the metadata log records.

core/        decides: requests and the time in, records and responses out. Begin with `core/machine.py`.
image/       is the state of the cluster that the records add up to.
records/     declares Kafka's metadata records and encodes them.
node         runs the core on a replica of the quorum's log while that replica leads.
service      is a controller process below its command: replica, listener, controller.
metrics      reports what a controller has of the cluster to Prometheus.
snapshotter  decides when to cut a snapshot of the image, and cuts it.
placement_registry  finds the placement of replicas that is configured.
prober       looks whether a broker's process is there.
reachability decides what such a look shows.
envelope     unwraps requests that a broker forwards for a client (KIP-590).

Other folders import what is exported here, and the records from `records`. What is not pure, and what only tools need,
is imported when it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..doors import lazy_door
from .core.config import (
    KRAFT_VERSION,
    NEW_CLUSTER_LEVELS,
    SUPPORTED_FEATURES,
    ControllerConfig,
    WarmingPolicy,
    registered_features,
    served_features,
)
from .core.features import EARLIEST_PENDING_UPLOAD_LEVEL
from .core.placement import PlaceableBroker, Placer, ReplicaPlacement, broken_placement
from .core.quotas.describe import describe_client_quotas
from .core.refusals import is_from_another, refusal
from .core.security.acls import describe_acls
from .core.security.scram import describe_user_scram_credentials
from .core.state import LOST_DIRECTORY, has_directory
from .image.client_quotas import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE, REQUEST_PERCENTAGE, ClientQuotas, QuotaLimit
from .image.delta import ConfigResource, ImageDelta
from .image.image import BROKER_RESOURCE, METADATA_VERSION, TOPIC_RESOURCE, MetadataImage, taken_up_in_steps
from .image.registrations import (
    NO_LEADER,
    BrokerRegistration,
    PartitionKey,
    PartitionRegistration,
    TopicRegistration,
    directory_of,
    is_reserved_directory,
)
from .image.snapshot import snapshot_records

if TYPE_CHECKING:
    from .core.security.scram import scram_record_of
    from .metrics import controller_families
    from .service import ControllerService, open_controller

__all__ = [
    "BROKER_RESOURCE",
    "CONSUMER_BYTE_RATE",
    "EARLIEST_PENDING_UPLOAD_LEVEL",
    "KRAFT_VERSION",
    "LOST_DIRECTORY",
    "METADATA_VERSION",
    "NEW_CLUSTER_LEVELS",
    "NO_LEADER",
    "PRODUCER_BYTE_RATE",
    "REQUEST_PERCENTAGE",
    "SUPPORTED_FEATURES",
    "TOPIC_RESOURCE",
    "BrokerRegistration",
    "ClientQuotas",
    "ConfigResource",
    "ControllerConfig",
    "ControllerService",
    "ImageDelta",
    "MetadataImage",
    "PartitionKey",
    "PartitionRegistration",
    "PlaceableBroker",
    "Placer",
    "QuotaLimit",
    "ReplicaPlacement",
    "TopicRegistration",
    "WarmingPolicy",
    "broken_placement",
    "controller_families",
    "describe_acls",
    "describe_client_quotas",
    "describe_user_scram_credentials",
    "directory_of",
    "has_directory",
    "is_from_another",
    "is_reserved_directory",
    "open_controller",
    "refusal",
    "registered_features",
    "scram_record_of",
    "served_features",
    "snapshot_records",
    "taken_up_in_steps",
]

if not TYPE_CHECKING:
    __getattr__ = lazy_door(
        __name__,
        {
            "ControllerService": "service",
            "controller_families": "metrics",
            "open_controller": "service",
            "scram_record_of": "core.security.scram",
        },
    )
