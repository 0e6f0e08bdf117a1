"""A broker's view of a cluster that controllers govern"""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tierfetch.broker.cluster.lifecycle import LifecycleTimes
from tierfetch.broker.cluster.quorum_view import QuorumClusterView, QuorumViewConfig
from tierfetch.broker.environment import NodeEnvironment
from tierfetch.protocol.net.client import KafkaClient
from tierfetch.quorum.controller_config import QuorumKeys
from tierfetch.quorum.node import QuorumNode
from tierfetch.tests.broker.images import image, partition, topic

LED = topic("t", partition(3, (3, 4), leader_epoch=7))


def view_of(request_timeout_s: float) -> QuorumClusterView:
    """Of broker 3, not started: nothing is asked of anybody."""
    view = QuorumClusterView(
        QuorumViewConfig(
            keys=cast(QuorumKeys, SimpleNamespace()),
            node_id=3,
            listener_name="PLAINTEXT",
            directory=Path("unused"),
            times=LifecycleTimes(),
            request_timeout_s=request_timeout_s,
        ),
        NodeEnvironment(rng=Random(1), now_ms=lambda: 0),
        lambda: KafkaClient(client_id="test", random=Random(1)),
    )
    view._metadata.cluster = image(LED)
    return view


async def test_C9_an_isr_change_names_the_incarnations_that_the_leader_saw() -> None:
    """Not those that are registered by now."""
    view, asked = view_of(5.0), []

    async def alter(*_: Any, isr: Any, **__: Any) -> None:
        asked.append(isr)

    view._isr_changes.alter = alter  # type: ignore[assignment,method-assign]
    view.lifecycle.broker_epoch = 40
    await view.alter_partition(
        LED.id_partition(0), leader_epoch=7, partition_epoch=0, isr=[3, 4], stated_epochs={4: 11}
    )
    assert asked == [[(3, 40), (4, 11)]]
    await view.close()


async def test_who_waits_for_metadata_is_told_at_once_that_they_are_not_followed_any_more() -> None:
    """A broker that is being started, and whose disk has failed, would say so a minute later."""
    view = view_of(3600.0)
    waiting = asyncio.create_task(view._until_image(lambda image: "another" in image.topics))
    await asyncio.sleep(0)
    view.lifecycle.fail("the log failed")
    with pytest.raises(OSError, match="the log failed"):
        await waiting
    assert view._waiting == [] or view._waiting[0][1].cancelled()
    await view.close()


async def test_a_broker_that_cannot_go_on_does_not_wait_to_be_unfenced() -> None:
    view = view_of(5.0)
    serving = asyncio.create_task(view.serve())
    await asyncio.sleep(0)
    view.lifecycle.fail("its heartbeats have ended")
    with pytest.raises(OSError, match="its heartbeats have ended"):
        await serving
    await view.close()


@pytest.mark.parametrize("is_leaving", [False, True], ids=["before", "meanwhile"])
async def test_a_broker_that_does_not_follow_the_metadata_log_does_not_wait_for_others_to_take_over(
    is_leaving: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it told clients in that time would be out of date."""
    view, never = view_of(5.0), asyncio.Event()
    failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    monkeypatch.setattr(view.lifecycle, "leave", never.wait)
    view.attach(cast(QuorumNode, SimpleNamespace(failed=failed)))
    if not is_leaving:
        failed.set_result("the log failed")
    leaving = asyncio.create_task(view.leave())
    if is_leaving:
        await asyncio.sleep(0)
        failed.set_result("the log failed")
    await asyncio.wait_for(leaving, 5)
    await view.close()
