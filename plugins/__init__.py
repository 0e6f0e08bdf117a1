"""One storage product each, and one object layout each; the only place with a storage SDK."""
