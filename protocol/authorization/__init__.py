"""The gate at dispatch: which principal may send which request, and what a denied one is answered.

access   asks the authorizer for one request.
transactions decides about transactional ids, and what their transactions touch.
whole    denies requests as a whole.
topics   denies the topics of a request one by one.
groups   denies the groups of a request one by one.
shares   denies what is asked about share groups, and of share coordinators.
configs  denies the resources of a request for configs one by one.
rows     is the table of all APIs, and writes `docs/security-apis.md`.
gate     puts the rows before the handlers of a listener.

Other folders import what is exported here. It is imported when it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...doors import lazy_door

if TYPE_CHECKING:
    from .access import TopicName
    from .gate import for_brokers_only, guarded
    from .groups import undescribed_group
    from .shares import undescribed_share_group

__all__ = [
    "TopicName",
    "for_brokers_only",
    "guarded",
    "undescribed_group",
    "undescribed_share_group",
]

if not TYPE_CHECKING:
    __getattr__ = lazy_door(
        __name__,
        {
            "TopicName": "access",
            "for_brokers_only": "gate",
            "guarded": "gate",
            "undescribed_group": "groups",
            "undescribed_share_group": "shares",
        },
    )
