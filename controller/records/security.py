"""Records about users and rights. Nothing here acts on them; the image keeps them for snapshots."""

from uuid import UUID

from .schema import MetadataRecord, binary, int8, int32, int64, metadata_record, string, uuid


@metadata_record(api_key=10)
class DelegationTokenRecord(MetadataRecord):
    owner: str = string()
    requester: str = string()
    renewers: tuple[str, ...] = string()
    issue_timestamp: int = int64()
    max_timestamp: int = int64()
    expiration_timestamp: int = int64()
    token_id: str = string()


@metadata_record(api_key=11)
class UserScramCredentialRecord(MetadataRecord):
    name: str = string()
    mechanism: int = int8()
    salt: bytes = binary()
    stored_key: bytes = binary()
    server_key: bytes = binary()
    iterations: int = int32()


@metadata_record(api_key=18)
class AccessControlEntryRecord(MetadataRecord):
    id_: UUID | None = uuid()
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8()
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


@metadata_record(api_key=19)
class RemoveAccessControlEntryRecord(MetadataRecord):
    id_: UUID | None = uuid()


@metadata_record(api_key=22)
class RemoveUserScramCredentialRecord(MetadataRecord):
    name: str = string()
    mechanism: int = int8()


@metadata_record(api_key=26)
class RemoveDelegationTokenRecord(MetadataRecord):
    token_id: str = string()
