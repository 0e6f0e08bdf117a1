"""Functions whose mutants are convicted, survive, hang, or are reached by nothing."""

from __future__ import annotations


def absolute(number: int) -> int:
    """`<` may be `<=`, and nobody could tell; negated, it is wrong for every number."""
    if number < 0:
        return -number
    return number


def sum_up_to(last: int) -> int:
    """Without the second `+=` it never ends."""
    total = number = 0
    while number < last:
        total += number
        number += 1
    return total


def never_called(number: int) -> bool:
    return number > 0
