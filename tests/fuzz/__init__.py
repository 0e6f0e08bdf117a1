"""Parsers of bytes from outside, under inputs that a coverage-guided fuzzer finds; `make fuzz-parsers`.

targets      says what is fuzzed: bytes in, and the errors that may come out.
all_targets  runs Atheris on each target in turn.
guided       runs Atheris on one target, and keeps what it finds.
corpus       is inputs that once failed, or that reach far; `make test` replays them.
"""
