"""What a view is made of: which remote segments count, remembered from one view to the next."""

from __future__ import annotations

from tierfetch.rlm.core.view import VERDICTS_MIN, UsableSegments
from tierfetch.tests.remote.builders import epochs_of

from .views import ids, remote

FIRST, SECOND = remote(1, 0, 100), remote(2, 100, 200)


def test_a_segment_of_another_history_counts_no_more_once_the_epochs_say_so() -> None:
    usable, epochs = UsableSegments(), epochs_of((0, 0))
    assert usable.of((FIRST, SECOND), epochs, 250) == (FIRST, SECOND)
    epochs.assign(2, 150)
    assert usable.of((FIRST, SECOND), epochs, 250) == (FIRST,)
    assert usable.of((FIRST, SECOND), epochs_of((0, 0)), 250) == (FIRST, SECOND)
    assert usable.of((FIRST, SECOND), epochs_of((0, 0), (1, 50)), 250) == ()


def test_a_segment_beyond_the_logs_end_counts_once_the_log_has_grown_over_it() -> None:
    usable, epochs = UsableSegments(), epochs_of((0, 0))
    for log_end_offset, expected in ((199, (FIRST,)), (200, (FIRST, SECOND)), (199, (FIRST,))):
        assert usable.of((FIRST, SECOND), epochs, log_end_offset) == expected


def test_what_was_found_missing_counts_while_it_is_missing() -> None:
    usable, epochs = UsableSegments(), epochs_of((0, 0))
    assert usable.of((FIRST, SECOND), epochs, 250, ids(1)) == (SECOND,)
    assert usable.of((FIRST, SECOND), epochs, 250) == (FIRST, SECOND)


def test_segments_that_are_gone_are_forgotten_in_time() -> None:
    usable, epochs = UsableSegments(), epochs_of((0, 0))
    many = [remote(number, number, number + 1) for number in range(2 * VERDICTS_MIN)]
    assert usable.of(many, epochs, 10_000) == tuple(many)
    usable.of((FIRST,), epochs, 10_000)
    assert len(usable._verdicts) == 1
