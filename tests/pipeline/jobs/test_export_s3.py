"""An export into a bucket: Arrow's S3 against moto's server"""

from __future__ import annotations

from pathlib import Path

import pytest

from tierfetch.cli.demo.command import moto_server
from tierfetch.pipeline.jobs.export_place import Url, open_place
from tierfetch.pipeline.jobs.exporting import ExportReport
from tierfetch.tests import samples

from .test_export import Crash, CrashingPlace, run

pytestmark = [pytest.mark.slow, pytest.mark.process]
PASSWORD = "demo"


def test_an_export_into_a_bucket_is_cut_short_and_put_right(tmp_path: Path) -> None:
    with moto_server(tmp_path) as endpoint:
        host = endpoint.removeprefix("http://")
        location = (
            f"s3://demo:{PASSWORD}@tierfetch-demo/out/export?scheme=http&endpoint_override={host}&region=us-east-1"
        )
        place = open_place(location)
        assert isinstance(place, Url)
        with pytest.raises(Crash):
            run(samples.TIER.parent, CrashingPlace(place, 9))
        assert [path for path in place.paths() if "/." in path], "something is to be put right"
        first = run(samples.TIER.parent, place)
        assert first.published or first.discarded
        assert run(samples.TIER.parent, place) == ExportReport()
        visible = [path for path in place.paths() if path.startswith("topic=") and "/." not in path]
        assert len(visible) == len([path for path in place.paths() if path.startswith("topic=")]) > 3
