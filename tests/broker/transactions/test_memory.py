"""The memory that transactional ids take."""

from __future__ import annotations

from dataclasses import replace

from tierfetch.broker.transactions.core.memory import ID_BYTES, PARTITION_BYTES, IdMemory, bytes_of
from tierfetch.broker.transactions.core.transaction import Transaction
from tierfetch.tests.broker.transactions.stage import A, B, Stage


def test_A1_a_new_id_gets_in_only_while_there_is_room() -> None:
    memory = IdMemory(3 * (ID_BYTES + 10))
    for number in range(3):
        assert memory.has_room(f"{number:010}")
        memory.changed(0, bytes_of(Transaction(f"{number:010}")))
    assert not memory.has_room("x")
    memory.changed(ID_BYTES + 10, 0)
    assert memory.has_room("y" * 10)
    assert not memory.has_room("y" * 11)


def test_A1_a_character_may_take_four_bytes() -> None:
    """A text takes as much for each character as for the widest."""
    assert bytes_of(Transaction("x" * 9 + "\N{LATIN SMALL LETTER E WITH ACUTE}")) == ID_BYTES + 40
    assert not IdMemory(ID_BYTES + 39).has_room("x" * 9 + "\N{GRINNING FACE}")


def test_A1_the_partitions_of_a_transaction_count() -> None:
    stage = Stage()
    stage.init()
    empty = bytes_of(stage.transaction)
    stage.add(A, B)
    assert bytes_of(stage.transaction) == empty + 2 * PARTITION_BYTES
    assert bytes_of(None) == 0
    assert bytes_of(Transaction("tx", replace(stage.value, partitions=frozenset()))) == empty
