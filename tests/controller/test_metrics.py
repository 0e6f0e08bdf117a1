"""What a controller reports of the cluster that its records describe."""

from __future__ import annotations

from dataclasses import dataclass, field

from tierfetch.controller import controller_families
from tierfetch.controller.image.image import MetadataImage
from tierfetch.tests.broker.test_metrics import DOCUMENT

from .harness import Harness


@dataclass
class View:
    """A controller that has replayed `image`."""

    image: MetadataImage = field(default_factory=MetadataImage)
    is_active: bool = False
    applied_end: int = 0


def values(view: View) -> dict[str, float]:
    return {
        family.name.removeprefix("tierfetch_controller_"): family.samples[0].value
        for family in controller_families(view)
    }


def test_every_metric_is_documented() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    names = [family.name for family in controller_families(View())]
    assert len(names) > 5
    assert [name for name in names if f"| `{name}`" not in text] == []


def test_C1_brokers_and_partitions_of_the_image() -> None:
    harness = Harness()
    assert set(values(View(harness.image)).values()) >= {0}
    harness.start(1, 2, 3)
    harness.create("t", (1, 2), (2, 3))
    harness.create("lost", (3,))
    harness.expire(3, alive=(1, 2))
    assert values(View(harness.image, is_active=True, applied_end=42)) == {
        "active": 1,
        "active_brokers": 2,
        "fenced_brokers": 1,
        "topics": 2,
        "partitions": 3,
        "offline_partitions": 1,
        "reassigning_partitions": 0,
        "preferred_replica_imbalance": 1,
        "last_applied_offset": 41,
    }
    harness.reassign("t", (2, 1))
    harness.reassign("t", (1,), partition=1)
    found = values(View(harness.image))
    assert found["reassigning_partitions"] == 1
    assert (found["active"], found["last_applied_offset"]) == (0, -1)
