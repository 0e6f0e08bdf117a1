"""Requests and responses of Kafka's protocol: one class for each message, whatever its version.

base           declares what all messages have in common.
versions       upgrades old forms of a message when read, and lowers them when written.
needed_fields  names the request fields that no older version may leave out.
errors         declares where responses say that something failed.
registry       finds the message classes of an API, and imports them on demand.
generate       writes the modules below, and `registry`, from kio's schemas.
topics         holds the messages about topics: create, grow, delete, reassign, elect.
configs        holds the messages about dynamic configs.
cluster        holds what clients ask about the cluster as a whole.
brokers        holds what brokers report to the controllers.
quorum         holds the messages of the KRaft quorum.
groups         holds the messages of consumer groups.
consumer_groups holds the messages of consumer groups of KIP-848.
offsets        holds the messages about offsets of logs and of groups.
quotas         holds the messages about quotas of clients.
security       holds the messages of authentication, and about users' credentials.
share_records  holds the messages about records that share groups fetch and acknowledge.
producers      holds the messages about producer ids and transaction markers.
share_groups   holds the messages of share groups.
share_state    holds the messages about what share coordinators keep.
transactions   holds the messages about transactions.

Other folders import messages from the module of their family, each a door of its own, and the rest from here. It is
imported when it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...doors import lazy_door

if TYPE_CHECKING:
    from .base import Message, Request, ResponseT, replaced
    from .errors import WithError, WithErrorMessage
    from .registry import MESSAGES, response_class
    from .versions import FEATURE_SAFE_DOWNGRADE, FEATURE_UPGRADE

__all__ = [
    "FEATURE_SAFE_DOWNGRADE",
    "FEATURE_UPGRADE",
    "MESSAGES",
    "Message",
    "Request",
    "ResponseT",
    "WithError",
    "WithErrorMessage",
    "replaced",
    "response_class",
]

if not TYPE_CHECKING:
    __getattr__ = lazy_door(
        __name__,
        {
            "FEATURE_SAFE_DOWNGRADE": "versions",
            "FEATURE_UPGRADE": "versions",
            "MESSAGES": "registry",
            "Message": "base",
            "Request": "base",
            "ResponseT": "base",
            "WithError": "errors",
            "WithErrorMessage": "errors",
            "replaced": "base",
            "response_class": "registry",
        },
    )
