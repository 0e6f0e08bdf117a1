"""A small product with tests of its own, to try the runner of mutants on."""
