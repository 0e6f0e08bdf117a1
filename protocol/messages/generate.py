"""Writes the message classes of this folder from kio's schemas: `python -m tierfetch.protocol.messages.generate`.

One class a message, whatever its version: it has the fields of every version that `protocol.api` offers, as Kafka's own
generated classes do, in plain values:

| kio's field | here |
|---|---|
| error_code | `ErrorCode`, NONE by default |
| duration, point in time | `<name>_ms: int`; a point in time that is not set is -1 |
| uuid | `UUID` or None, which is the zero uuid |
| array | tuple |

A field without a default in the schema must be given if every version has it. A field that some version lacks has its
schema's default, or the type's zero. Nested classes keep kio's name where no other message uses it; else the message's
name comes first. A test compares the files with what this module would write.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, field
from datetime import timedelta
from pathlib import Path
from typing import Final

from kio.static.protocol import Entity

from ...light_dataclass import dataclass
from ..api import ApiKey
from ..errors import ErrorCode
from ..wire.schema import FieldSchema, schema_of

HERE: Final = Path(__file__).parent
FAMILIES: Final[Mapping[str, tuple[str, tuple[ApiKey, ...]]]] = {
    "brokers": (
        "What brokers report to the controllers.",
        (
            ApiKey.BROKER_REGISTRATION,
            ApiKey.BROKER_HEARTBEAT,
            ApiKey.UNREGISTER_BROKER,
            ApiKey.CONTROLLER_REGISTRATION,
            ApiKey.ALTER_PARTITION,
            ApiKey.ASSIGN_REPLICAS_TO_DIRS,
            ApiKey.ALLOCATE_PRODUCER_IDS,
            ApiKey.ENVELOPE,
        ),
    ),
    "cluster": (
        "What clients ask about the cluster as a whole.",
        (
            ApiKey.API_VERSIONS,
            ApiKey.METADATA,
            ApiKey.DESCRIBE_CLUSTER,
            ApiKey.UPDATE_FEATURES,
            ApiKey.DESCRIBE_LOG_DIRS,
            ApiKey.ALTER_REPLICA_LOG_DIRS,
        ),
    ),
    "configs": (
        "Dynamic configs.",
        (ApiKey.DESCRIBE_CONFIGS, ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS),
    ),
    "groups": (
        "Consumer groups of the classic protocol.",
        (
            ApiKey.FIND_COORDINATOR,
            ApiKey.JOIN_GROUP,
            ApiKey.SYNC_GROUP,
            ApiKey.HEARTBEAT,
            ApiKey.LEAVE_GROUP,
            ApiKey.LIST_GROUPS,
            ApiKey.DESCRIBE_GROUPS,
            ApiKey.DELETE_GROUPS,
        ),
    ),
    "consumer_groups": (
        "Consumer groups of KIP-848.",
        (ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE),
    ),
    "offsets": (
        "Offsets of logs, and offsets that groups have committed.",
        (
            ApiKey.LIST_OFFSETS,
            ApiKey.OFFSET_FOR_LEADER_EPOCH,
            ApiKey.DELETE_RECORDS,
            ApiKey.OFFSET_COMMIT,
            ApiKey.OFFSET_FETCH,
            ApiKey.OFFSET_DELETE,
        ),
    ),
    "share_records": (
        "Records that share groups fetch and acknowledge (KIP-932).",
        (ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE),
    ),
    "producers": (
        "Ids of producers, and markers of their transactions.",
        (ApiKey.INIT_PRODUCER_ID, ApiKey.WRITE_TXN_MARKERS),
    ),
    "quorum": (
        "The KRaft quorum: votes, epochs, snapshots, voters.",
        (
            ApiKey.VOTE,
            ApiKey.BEGIN_QUORUM_EPOCH,
            ApiKey.END_QUORUM_EPOCH,
            ApiKey.DESCRIBE_QUORUM,
            ApiKey.FETCH_SNAPSHOT,
            ApiKey.ADD_RAFT_VOTER,
            ApiKey.REMOVE_RAFT_VOTER,
            ApiKey.UPDATE_RAFT_VOTER,
        ),
    ),
    "quotas": (
        "Quotas of clients.",
        (ApiKey.DESCRIBE_CLIENT_QUOTAS, ApiKey.ALTER_CLIENT_QUOTAS),
    ),
    "security": (
        "Authentication, the credentials of users, and their rights.",
        (
            ApiKey.SASL_HANDSHAKE,
            ApiKey.SASL_AUTHENTICATE,
            ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
            ApiKey.DESCRIBE_ACLS,
            ApiKey.CREATE_ACLS,
            ApiKey.DELETE_ACLS,
        ),
    ),
    "share_groups": (
        "Share groups of KIP-932: their members and offsets.",
        (
            ApiKey.SHARE_GROUP_HEARTBEAT,
            ApiKey.SHARE_GROUP_DESCRIBE,
            ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
            ApiKey.ALTER_SHARE_GROUP_OFFSETS,
            ApiKey.DELETE_SHARE_GROUP_OFFSETS,
        ),
    ),
    "share_state": (
        "What share coordinators keep of share groups (KIP-932).",
        (
            ApiKey.INITIALIZE_SHARE_GROUP_STATE,
            ApiKey.READ_SHARE_GROUP_STATE,
            ApiKey.WRITE_SHARE_GROUP_STATE,
            ApiKey.DELETE_SHARE_GROUP_STATE,
            ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
        ),
    ),
    "transactions": (
        "Transactions: what is in them, how they end, and which there are.",
        (
            ApiKey.ADD_PARTITIONS_TO_TXN,
            ApiKey.ADD_OFFSETS_TO_TXN,
            ApiKey.END_TXN,
            ApiKey.TXN_OFFSET_COMMIT,
            ApiKey.DESCRIBE_PRODUCERS,
            ApiKey.DESCRIBE_TRANSACTIONS,
            ApiKey.LIST_TRANSACTIONS,
        ),
    ),
    "topics": (
        "Topics: made, grown, deleted, reassigned, led.",
        (
            ApiKey.CREATE_TOPICS,
            ApiKey.DELETE_TOPICS,
            ApiKey.CREATE_PARTITIONS,
            ApiKey.ELECT_LEADERS,
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ),
    ),
}
"""What each module holds. Produce and Fetch have codecs and values of their own, which do not copy records."""

_PYTHON_TYPES: Final = {
    "bool": "bool",
    "string": "str",
    "bytes": "bytes",
    "records": "bytes",
    "float64": "float",
    "error_code": "ErrorCode",
    "uuid": "UUID",
}
_ZEROS: Final = {
    "bool": "False",
    "string": '""',
    "bytes": 'b""',
    "records": 'b""',
    "float64": "0.0",
    "error_code": "ErrorCode.none",
    "uuid": "None",
    "datetime_i64": "-1",
}
"""The default of a field without one in the schema; 0 for any other type."""


WRITTEN_OFTEN: Final = {
    "MetadataResponsePartition": "All clients ask for the same ones, all at once when a broker goes.",
    "MetadataResponseTopic": "All clients ask for the same ones.",
}
"""The classes whose objects are kept with their bytes (`wire.steps`), and why."""

HOLDING_SLICES: Final = frozenset({"ShareFetchResponse"})
"""The responses that are sent with slices of the log."""

REGISTRY_HEAD: Final = '''"""The message classes of each API, imported on demand. Generated by `generate`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Final

from ..api import ApiKey
from .base import Message

MESSAGES: Final[Mapping[ApiKey, tuple[str, str, str]]] = {
'''
REGISTRY_TAIL: Final = '''"""The module, the request's class and the response's, by API."""


@cache
def request_class(api: ApiKey) -> type[Message]:
    """Return the class of an API's requests."""
    module, name, _ = MESSAGES[api]
    found: type[Message] = getattr(import_module(f".{module}", __package__), name)
    return found


@cache
def response_class(api: ApiKey) -> type[Message]:
    """Return the class of an API's responses."""
    module, _, name = MESSAGES[api]
    found: type[Message] = getattr(import_module(f".{module}", __package__), name)
    return found
'''


@dataclass
class Member:
    """One field of a generated class, merged over the versions that have it; `schema` is the newest one's."""

    schema: FieldSchema
    versions: list[int]
    is_nullable: bool
    nested: MessageClass | None


@dataclass
class MessageClass:
    """One class to be generated. `versions`: those in which it occurs."""

    kio_name: str
    versions: list[int]
    name: str = ""
    members: dict[str, Member] = field(default_factory=dict)

    def add(self, version: int, entity: type[Entity], pool: dict[str, MessageClass]) -> None:
        """Merge the fields of one version; versions ascend. `pool` holds the other classes of the message."""
        if version in self.versions:
            return
        self.versions.append(version)
        for schema in schema_of(entity):
            member = self.members.get(schema.plain_name)
            if member is None:
                member = self.members[schema.plain_name] = Member(schema, [], False, None)
            if schema.entity is not None:
                name = schema.entity.__name__
                member.nested = pool.setdefault(name, MessageClass(name, []))
                member.nested.add(version, schema.entity, pool)
            member.schema = schema
            member.versions.append(version)
            member.is_nullable = member.is_nullable or schema.is_nullable

    def nested_classes(self) -> Iterator[MessageClass]:
        """Yield the classes below this one, once each and after those that it needs."""
        seen = set()
        for member in self.members.values():
            if member.nested is not None:
                for item in (*member.nested.nested_classes(), member.nested):
                    if item.kio_name not in seen:
                        seen.add(item.kio_name)
                        yield item


def message_classes(api: ApiKey) -> tuple[MessageClass, MessageClass]:
    """Return the request and the response of an API, merged over the versions that are offered."""
    both = []
    for type_of in (api.request_type, api.response_type):
        merged = MessageClass(type_of(api.max_version).__name__, [])
        pool: dict[str, MessageClass] = {}
        for version in range(api.min_version, api.max_version + 1):
            merged.add(version, type_of(version), pool)
        both.append(merged)
    request, response = both
    return request, response


def name_classes(messages: Mapping[ApiKey, tuple[MessageClass, MessageClass]]) -> None:
    """Give every class a name that no other one has."""
    roots = [root for pair in messages.values() for root in pair]
    uses = Counter(nested.kio_name for root in roots for nested in root.nested_classes())
    for root in roots:
        root.name = root.kio_name
        for nested in root.nested_classes():
            is_taken = uses[nested.kio_name] > 1 and not nested.kio_name.startswith(root.name)
            nested.name = f"{root.name}{nested.kio_name}" if is_taken else nested.kio_name
    names = Counter(item.name for root in roots for item in (root, *root.nested_classes()))
    assert max(names.values()) == 1, [name for name, count in names.items() if count > 1]


def annotation(member: Member) -> str:
    """Return the type of a field, as text."""
    schema = member.schema
    one = member.nested.name if member.nested is not None else _PYTHON_TYPES.get(schema.kafka_type, "int")
    is_optional = (member.is_nullable and not schema.kafka_type.startswith("datetime")) or schema.kafka_type == "uuid"
    if schema.is_array:
        return f"tuple[{one}, ...]" + (" | None" if member.is_nullable else "")
    return one + (" | None" if is_optional else "")


def default_of(member: Member, owner: MessageClass) -> str | None:
    """Return the default of a field as text, or None where it has to be given."""
    schema = member.schema
    if schema.default is not MISSING:
        return _literal(schema, schema.default, member)
    if schema.tag is None and member.versions == owner.versions and schema.kafka_type != "error_code":
        return None
    return _zero(member)


def _literal(schema: FieldSchema, default: object, member: Member) -> str:
    if isinstance(default, timedelta):
        return str(default // timedelta(milliseconds=1))
    if schema.kafka_type.startswith("datetime"):
        return "-1"
    if schema.kafka_type == "error_code":
        assert default is None or isinstance(default, ErrorCode), (member, default)
        return f"ErrorCode.{(default or ErrorCode.none).name}"
    if schema.entity is not None and not schema.is_array and default is not None:
        return _zero(member)
    return repr(default) if not isinstance(default, str) else f'"{default}"'


def _zero(member: Member) -> str:
    if member.schema.is_array:
        return "()"
    if member.nested is None:
        return _ZEROS.get(member.schema.kafka_type, "0")
    given = [
        f"{name}={_zero(inner)}"
        for name, inner in member.nested.members.items()
        if default_of(inner, member.nested) is None
    ]
    return f"{member.nested.name}({', '.join(given)})"


def class_text(item: MessageClass, api: ApiKey | None, response: str | None) -> str:
    """Return the source of one class. `api` and `response` are a request's; a nested class and a response have none."""
    base = _base_of(item) if response is None else f"Request[{response}]"
    why = WRITTEN_OFTEN.get(item.name)
    text = _versions_text(item.versions) + (f" {why}" if why else "")
    bases = f"{base}, WrittenOften" if why else base
    lines = ["@message", f"class {item.name}({bases}):", f'    """{text}"""', ""]
    if item.name in HOLDING_SLICES:
        lines += ["    holds_slices: ClassVar[bool] = True", ""]
    if response is not None and api is not None:
        lines += [f"    api_key: ClassVar[int] = {int(api)}"]
    for name, member in item.members.items():
        default = default_of(member, item)
        only = "" if member.versions == item.versions else f"  # {_versions_text(member.versions)}"
        lines.append(f"    {name}: {annotation(member)}" + ("" if default is None else f" = {default}") + only)
    if not item.members:
        lines.append("" if response is not None else "    pass")
    return "\n".join(lines)


def _base_of(item: MessageClass) -> str:
    """Return the base of a response or of a structure."""
    code = item.members.get("error_code")
    if code is None or code.schema.kafka_type != "error_code":
        return "Message"
    return "WithErrorMessage" if "error_message" in item.members else "WithError"


def _versions_text(versions: list[int]) -> str:
    first, last = versions[0], versions[-1]
    return f"Version {first}." if first == last else f"Versions {first} to {last}."


def module_text(title: str, pairs: Mapping[ApiKey, tuple[MessageClass, MessageClass]]) -> str:
    """Return the source of one module, formatted."""
    classes = []
    for api, (request, response) in pairs.items():
        classes += [class_text(nested, None, None) for nested in response.nested_classes()]
        classes.append(class_text(response, None, None))
        classes += [class_text(nested, None, None) for nested in request.nested_classes()]
        classes.append(class_text(request, api, response.name))
    body = "\n\n\n".join(classes)
    head = f'"""{title} Generated from kio\'s schemas by `generate`."""\n\nfrom __future__ import annotations\n\n'
    imports = "from typing import ClassVar\n" + ("from uuid import UUID\n" if "UUID" in body else "") + "\n"
    if "ErrorCode" in body:
        imports += "from ..errors import ErrorCode\n"
    names = ", ".join(
        name for name in ("Message", "Request", "WrittenOften", "message") if re.search(rf"\b{name}\b", body)
    )
    bases = ", ".join(name for name in ("WithError", "WithErrorMessage") if re.search(rf"\({name}\b", body))
    imports += f"from .base import {names}\n" + (f"from .errors import {bases}\n" if bases else "")
    return head + imports + "\n\n" + body + "\n"


def all_messages() -> dict[ApiKey, tuple[MessageClass, MessageClass]]:
    """Return every message of the families, named."""
    messages = {api: message_classes(api) for _, apis in FAMILIES.values() for api in apis}
    name_classes(messages)
    return messages


def registry_text(messages: Mapping[ApiKey, tuple[MessageClass, MessageClass]]) -> str:
    """Return the source of the table of all messages."""
    module_of = {api: module for module, (_, apis) in FAMILIES.items() for api in apis}
    rows = [
        f'    ApiKey.{api.name}: ("{module_of[api]}", "{request.name}", "{response.name}"),'
        for api, (request, response) in sorted(messages.items())
    ]
    return REGISTRY_HEAD + "\n".join(rows) + "\n}\n" + REGISTRY_TAIL


def texts() -> dict[str, str]:
    """Return what each generated file holds, by its name, as the project's formatter leaves it."""
    messages = all_messages()
    files = {
        f"{module}.py": module_text(title, {api: messages[api] for api in apis})
        for module, (title, apis) in FAMILIES.items()
    }
    files["registry.py"] = registry_text(messages)
    return {name: _formatted(name, text) for name, text in files.items()}


def _formatted(name: str, text: str) -> str:
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(HERE / name), "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def main() -> None:
    """Write the files."""
    for name, text in texts().items():
        (HERE / name).write_text(text)


if __name__ == "__main__":
    main()
