"""What CI runs and how it decides (`.ci/run`, `make ci`). Needs nothing but Python until `make install` has run."""
