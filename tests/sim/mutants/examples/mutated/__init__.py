"""What is mutated: its tests are not in this folder, as those of a folder of the product are not in it."""
