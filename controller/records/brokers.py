"""Records about nodes: brokers, controllers, fencing."""

from typing import Final
from uuid import UUID

from .schema import (
    MetadataRecord,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    metadata_record,
    string,
    structure,
    uint16,
    uuid,
)

FENCED: Final = 1
UNFENCED: Final = -1
FENCING_UNCHANGED: Final = 0
IN_CONTROLLED_SHUTDOWN: Final = 1


@structure
class BrokerEndpoint(MetadataRecord):
    name: str = string()
    host: str = string()
    port: int = uint16()
    security_protocol: int = int16()


@structure
class BrokerFeature(MetadataRecord):
    name: str = string()
    min_supported_version: int = int16()
    max_supported_version: int = int16()


@metadata_record(api_key=0, newest_version=4)
class RegisterBrokerRecord(MetadataRecord):
    broker_id: int = int32()
    is_migrating_zk_broker: bool = boolean(since=2, default=False)
    incarnation_id: UUID | None = uuid()
    broker_epoch: int = int64()
    end_points: tuple[BrokerEndpoint, ...] = array()
    features: tuple[BrokerFeature, ...] = array()
    rack: str | None = string()
    fenced: bool = boolean()
    in_controlled_shutdown: bool = boolean(since=1, default=False)
    log_dirs: tuple[UUID | None, ...] = uuid(since=3, tag=0, default=())
    cordoned_log_dirs: tuple[UUID | None, ...] | None = uuid(since=4, tag=1, default=None)


@metadata_record(api_key=1)
class UnregisterBrokerRecord(MetadataRecord):
    broker_id: int = int32()
    broker_epoch: int = int64()


@metadata_record(api_key=7)
class FenceBrokerRecord(MetadataRecord):
    id_: int = int32()
    epoch: int = int64()


@metadata_record(api_key=8)
class UnfenceBrokerRecord(MetadataRecord):
    id_: int = int32()
    epoch: int = int64()


@metadata_record(api_key=17, newest_version=3)
class BrokerRegistrationChangeRecord(MetadataRecord):
    """`fenced` is FENCED, UNFENCED or FENCING_UNCHANGED."""

    broker_id: int = int32()
    broker_epoch: int = int64()
    fenced: int = int8(tag=0, default=FENCING_UNCHANGED)
    in_controlled_shutdown: int = int8(since=1, tag=1, default=0)
    log_dirs: tuple[UUID | None, ...] = uuid(since=2, tag=2, default=())
    cordoned_log_dirs: tuple[UUID | None, ...] | None = uuid(since=3, tag=3, default=None)


@metadata_record(api_key=27)
class RegisterControllerRecord(MetadataRecord):
    controller_id: int = int32()
    incarnation_id: UUID | None = uuid()
    zk_migration_ready: bool = boolean()
    end_points: tuple[BrokerEndpoint, ...] = array()
    features: tuple[BrokerFeature, ...] = array()
