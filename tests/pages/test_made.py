"""The command line on a page has no secret, however it was given."""

from __future__ import annotations

import pytest

from tierfetch.pages import redacted

SECRET = "hunter2"


@pytest.mark.parametrize(
    "words",
    [
        ("--option", f"storage.secret.access.key={SECRET}"),
        ("--conf", f"spark.some.innocent.name={SECRET}"),
        (f"--conf=spark.hadoop.x={SECRET}",),
        ("--password", SECRET),
        (f"--token={SECRET}",),
        (f"s3://user:{SECRET}@host/tier",),
        (f"https://host/tier?sig={SECRET}",),
        (f"--cluster=https://u:{SECRET}@host/x",),
    ],
)
def test_secrets_are_left_out(words: tuple[str, ...]) -> None:
    shown = redacted(["/usr/bin/tierfetch", "spark", "audit", *words])
    assert SECRET not in shown
    assert shown.startswith("tierfetch spark audit ")
    assert "***" in shown


def test_what_is_no_secret_is_shown() -> None:
    words = ["x/main.py", "model", "compare", "--cluster", "my cluster.yaml", "--broker=3", "s3://bucket/tier"]
    assert redacted(words) == "tierfetch model compare --cluster 'my cluster.yaml' --broker=3 s3://bucket/tier"
    assert len(redacted(["tierfetch", "x" * 1000])) == 500
