"""Bugs to be planted, to prove that the checks would catch them."""
