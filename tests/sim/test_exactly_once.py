"""Work that was lost, done twice, done ahead or split is found; work that was done once is not."""

from __future__ import annotations

import pytest

from tierfetch.sim.judges.core.acknowledged_writes import FinalLog
from tierfetch.sim.judges.core.exactly_once import check_atomicity, check_work
from tierfetch.sim.judges.core.history import ACKS_ALL, History, Send

IN = FinalLog("in-0", 0, 4, {0: 10, 1: 11, 2: 12, 3: 13})


def kinds(committed: int, *outputs: int) -> list[str]:
    return [each.kind for each in check_work("g", [IN], {"in-0": committed}, lambda output: output % 100, outputs)]


@pytest.mark.parametrize(
    ("committed", "outputs", "found"),
    [
        (0, (), []),
        (2, (110, 211), []),
        (4, (110, 111, 112, 113), []),
        (2, (110,), ["lost work"]),
        (2, (110, 111, 211), ["work done twice"]),
        (2, (110, 111, 112), ["work ahead"]),
        (1, (110, 112, 212), ["work done twice", "work ahead"]),
    ],
)
def test_every_record_below_the_committed_offset_has_one_output(
    committed: int, outputs: tuple[int, ...], found: list[str]
) -> None:
    assert kinds(committed, *outputs) == found


def test_an_anomaly_names_the_records() -> None:
    (lost,) = check_work("g", [IN], {"in-0": 2}, lambda output: output, [11])
    assert str(lost) == "lost work: g: 1 records, the first of them ['in-0@0']"


def history(*sends: tuple[str, int, int, bool]) -> History:
    made = History()
    for partition, value, transaction, is_ok in sends:
        send = Send("w", partition, (value,), ACKS_ALL, 0, transaction)
        if is_ok:
            send.ok(0, 0, 0)
        made.sends.append(send)
    return made


OUT = ("out-0", "out-1")


def test_a_transaction_is_shown_in_all_partitions_or_in_none() -> None:
    whole = history(("out-0", 1, 5, True), ("out-1", 2, 5, True), ("out-0", 3, 6, True), ("out-1", 4, 6, True))
    assert check_atomicity(whole, OUT, [1, 2]) == []
    (split,) = check_atomicity(whole, OUT, [1, 2, 4])
    assert str(split) == "split transaction: transaction 6: shown are ['4 in out-1'], and not ['3 in out-0']"


def test_what_is_not_known_to_be_in_the_log_is_no_part_of_it() -> None:
    assert check_atomicity(history(("out-0", 1, 5, True), ("out-1", 2, 5, False)), OUT, [1]) == []


def test_other_topics_are_not_looked_at() -> None:
    assert check_atomicity(history(("out-0", 1, 5, True), ("elsewhere-0", 2, 5, True)), OUT, [1]) == []
