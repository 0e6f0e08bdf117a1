"""Mutants: the product with one small mistake each, made mechanically, to measure what would notice it.

    python -m tierfetch.tests.sim.mutants --sample 400 --seed 1 --jobs 2

| module          | what it does                                                                                     |
|-----------------|--------------------------------------------------------------------------------------------------|
| `operators.py`  | pure: the kinds of mistakes, as edits of a syntax tree                                           |
| `generate.py`   | pure: all mutants of a source, each with an id that edits elsewhere do not change                |
| `importing.py`  | an import hook: a mutated module, or modules that record which lines ran; no file is changed     |
| `programs.py`   | what runs in a process of its own: seeds of the simulator, unit tests                            |
| `processes.py`  | forks it, watches its time, its memory and its silence, and ends it                              |
| `coverage.py`   | which seeds and which tests reach which line, recorded again where it may have changed |
| `judging.py`    | one mutant against the seeds and the tests that reach it: a verdict                              |
| `record.py`     | pure: the verdicts as lines of JSON, found again in sources that have moved on; samples           |
| `figures.py`    | pure: shares with Wilson's confidence intervals, the table, the list of survivors                |
| `page.py`       | pure: the page of the docs, written from the record                                               |
| `equivalent.py` | mutants that change nothing anybody could see, marked by hand in `equivalent.txt`                |
| `never_run.py`  | the functions that no seed runs, as a page of the docs                                           |
| `__main__.py`   | the command: a sample, a record that a later run continues, a progress bar                        |
"""
