"""The former place of `tierfetch.testing.remote_log_metadata`."""

from ...testing.remote_log_metadata import *  # noqa: F403
