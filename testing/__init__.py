"""Conformance suites for plugin authors: subclass a suite, give it a fixture, run pytest.

remote_storage       checks a `RemoteStorageManager`.
remote_log_metadata  checks a `RemoteLogMetadataManager`.
"""
