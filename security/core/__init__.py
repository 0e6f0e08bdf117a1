"""The decisions about identity. Pure: bytes in, bytes out."""
