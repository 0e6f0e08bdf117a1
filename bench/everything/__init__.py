"""Run every benchmark of the docs in a short form, within half an hour: `python -m bench all`.

plan     says what is run, how small, how long each takes, and what may still begin.
command  runs them one after another, each as a process of its own.
"""
