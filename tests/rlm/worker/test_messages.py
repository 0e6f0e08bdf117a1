"""What a broker and its worker say survives the way, and nothing else is understood."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.rlm.worker.core.messages import (
    BODY_BYTES_MAX,
    HEADER_BYTES_MAX,
    SIZES,
    Cancel,
    Copy,
    Delete,
    Done,
    Failed,
    LogLine,
    MalformedFrameError,
    Message,
    Open,
    Opened,
    decode,
    encode,
    sizes,
)
from tierfetch.tests.rlm.views import STARTED, remote

SEGMENT = remote(1, 0, 10, state=STARTED)
texts = st.text(max_size=20)
calls = st.integers(0, 2**31)
messages: st.SearchStrategy[Message] = st.one_of(
    st.builds(Open, texts, st.dictionaries(texts, texts, max_size=3), texts),
    st.builds(
        Copy,
        calls,
        st.just(SEGMENT),
        texts,
        st.integers(0, 2**40),
        st.dictionaries(texts, st.binary(max_size=20), max_size=5),
        st.booleans(),
    ),
    st.builds(Delete, calls, st.just(SEGMENT)),
    st.builds(Cancel, calls),
    st.builds(Opened),
    st.builds(Done, calls, st.none() | st.binary(max_size=128)),
    st.builds(Failed, calls, texts, texts, st.none() | st.integers(0, 200), st.none() | texts),
    st.builds(LogLine, texts, st.integers(0, 50), texts),
)


def taken_apart(frame: bytes) -> tuple[bytes, bytes]:
    header, body = sizes(frame[: SIZES.size])
    assert len(frame) == SIZES.size + header + body
    return frame[SIZES.size : SIZES.size + header], frame[SIZES.size + header :]


@given(messages)
def test_R1_a_message_is_understood_as_it_was_meant(message: Message) -> None:
    assert decode(*taken_apart(encode(message))) == message


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_what_is_no_message_is_said_to_be_none(header: bytes, body: bytes) -> None:
    with pytest.raises(MalformedFrameError):
        decode(header, body)


@given(messages, st.data())
def test_a_message_with_a_body_that_is_cut_is_none_or_another_one(message: Message, data: st.DataObject) -> None:
    header, body = taken_apart(encode(message))
    cut = body[: data.draw(st.integers(0, max(0, len(body) - 1)))]
    if isinstance(message, Copy | Delete):
        with pytest.raises(MalformedFrameError):
            decode(header, cut)


@pytest.mark.parametrize("beyond", [(HEADER_BYTES_MAX + 1, 0), (0, BODY_BYTES_MAX + 1)])
def test_a_frame_beyond_the_limits_is_not_read(beyond: tuple[int, int]) -> None:
    with pytest.raises(MalformedFrameError, match="a frame of"):
        sizes(SIZES.pack(*beyond))


def test_options_are_not_shown() -> None:
    assert "secret" not in repr(Open("s3", {"secret.access.key": "secret"}, ""))
