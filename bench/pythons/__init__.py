"""Compare interpreters and event loops: `python -m bench pythons`.

ways       says what is compared, and when one way is better than the standard one. Pure.
command    runs short benchmarks under each, in turn, and prints the verdicts.
in_broker  is a folder for `PYTHONPATH`: it has every interpreter that starts use uvloop.
"""
