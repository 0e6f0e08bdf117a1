"""Conformance suites for plugin authors: subclass a suite, give it a fixture, run pytest."""
