"""The former place of `tierfetch.testing.remote_storage`."""

from ...testing.remote_storage import *  # noqa: F403
