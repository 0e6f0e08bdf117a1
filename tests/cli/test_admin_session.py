"""What an operator is told of brokers that do not answer."""

from __future__ import annotations

import pytest

from tierfetch.cli.cluster_session import Admin
from tierfetch.protocol.net.client import Address
from tierfetch.protocol.net.client_connection import RequestTimedOutError
from tierfetch.protocol.requests import metadata_of

BROKER = Address("kafka-1", 9092)


class Failing:
    """A client whose every request fails so."""

    def __init__(self, error: OSError) -> None:
        self._error = error

    async def send(self, *_: object, **__: object) -> None:
        raise self._error


@pytest.mark.parametrize(
    "error",
    [RequestTimedOutError(f"{BROKER} did not answer METADATA within 30 s"), ConnectionResetError("Connection reset")],
)
async def test_a_broker_that_does_not_answer_is_named_once(error: OSError) -> None:
    admin = Admin([BROKER])
    admin._client = Failing(error)
    with pytest.raises(OSError, match=str(error)) as failed:
        await admin.send(metadata_of(None))
    assert str(failed.value).count(str(BROKER)) == 1
