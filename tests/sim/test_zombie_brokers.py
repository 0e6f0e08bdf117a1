"""A process of the past says to the controllers what it was about to say, under the epoch that it had."""

from __future__ import annotations

from random import Random

from tierfetch.broker.cluster.view import BrokerRegistration, ClusterImage
from tierfetch.controller.image.image import MetadataImage
from tierfetch.quorum.listener import CommittedBatch
from tierfetch.sim.judges.core.events import MetadataChanged
from tierfetch.sim.scenarios.strangers.zombie_brokers import ZombieBrokers


def image(epoch: int) -> ClusterImage:
    return ClusterImage("c", {1: BrokerRegistration(1, "h", 9092, epoch=epoch)}, {}, {})


def test_the_epoch_is_that_of_the_last_registration_but_one() -> None:
    zombies = ZombieBrokers({}, Random(1))
    batch = CommittedBatch(0, 0, 0, 0, ())
    for before, after in ((3, 3), (3, 7), (7, 7), (7, 9)):
        zombies.on(MetadataChanged(batch, MetadataImage(), image(before), image(after)))
    assert zombies._epochs == {1: 7}
    assert zombies._heartbeat(1, 7).broker_epoch == 7
