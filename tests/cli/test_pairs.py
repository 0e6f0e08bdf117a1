"""Options that are KEY=VALUE: each key once, and no value in an error."""

from __future__ import annotations

import click
import pytest

from tierfetch.cli.options import pairs


def test_a_value_may_be_empty_and_contain_the_sign() -> None:
    assert pairs(["a=", "b=c=d"], "--config", "x=1") == {"a": "", "b": "c=d"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["a"], "--config 'a': expected KEY=VALUE, such as x=1"),
        (["=secret"], "--config '=...': expected KEY=VALUE, such as x=1"),
        (["a=1", "b=2", "a=secret"], "--config a: given twice; one of them would have no effect"),
    ],
)
def test_what_is_wrong_is_named_without_its_value(given: list[str], said: str) -> None:
    with pytest.raises(click.UsageError) as raised:
        pairs(given, "--config", "x=1")
    assert raised.value.message == said
