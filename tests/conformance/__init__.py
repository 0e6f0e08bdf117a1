"""The former place of `tierfetch.testing`; imports from here go on to work."""
