"""The packages of the wheel: every folder of the checkout with an `__init__.py`, below the name `tierfetch`.

The repository's root is the package itself, which `[tool.setuptools.packages.find]` cannot say.
"""

from setuptools import find_packages, setup

NOT_SHIPPED = ["tests", "tests.*", "bench", "bench.*", "build", "build.*", "docs", "docs.*"]

folders = find_packages(exclude=NOT_SHIPPED)
setup(packages=["tierfetch", *(f"tierfetch.{folder}" for folder in folders), "tierfetch.tests.conformance"])
