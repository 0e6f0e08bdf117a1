"""The client quotas of a cluster that tests share: what one of them leaves would throttle the clients of all others."""

from __future__ import annotations

from random import Random

from tierfetch.cli.local.processes import poll
from tierfetch.protocol.messages.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponseEntryData,
    OpData,
)
from tierfetch.protocol.net.client import Address, KafkaClient
from tierfetch.tests.interop.clients import TIMEOUT_S

EVERYTHING = DescribeClientQuotasRequest(components=(), strict=False)


async def remove_quotas(port: int) -> tuple[DescribeClientQuotasResponseEntryData, ...]:
    """Remove all client quotas and return those that there were, once a broker no longer has any."""
    address, client = Address("127.0.0.1", port), KafkaClient(client_id="quotas", random=Random(1))
    try:
        found = (await client.send(address, EVERYTHING, timeout_s=TIMEOUT_S)).entries or ()
        if not found:
            return ()
        removals = AlterClientQuotasRequest(entries=tuple(map(_removal, found)), validate_only=False)
        refused = [each.error_message for each in (await client.send(address, removals)).entries if each.error_message]
        assert not refused, refused
        for _ in poll(TIMEOUT_S, "the quotas to be gone"):
            if not (await client.send(address, EVERYTHING, timeout_s=TIMEOUT_S)).entries:
                break
        return found
    finally:
        await client.close()


def _removal(entry: DescribeClientQuotasResponseEntryData) -> AlterClientQuotasRequestEntryData:
    return AlterClientQuotasRequestEntryData(
        entity=tuple(
            AlterClientQuotasRequestEntityData(entity_type=part.entity_type, entity_name=part.entity_name)
            for part in entry.entity
        ),
        ops=tuple(OpData(key=item.key, value=0.0, remove=True) for item in entry.values),
    )
