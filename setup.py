"""The packages of the wheel: every folder of the checkout with an `__init__.py`, below the name `tierfetch`.

The repository's root is the package itself, which `[tool.setuptools.packages.find]` cannot say. So this file lies in
the package's folder, and setuptools takes it for a module: it is left out here.
"""

from __future__ import annotations

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

NOT_SHIPPED = ["tests", "tests.*", "bench", "bench.*", "build", "build.*", "docs", "docs.*"]


class BuildModules(build_py):  # type: ignore[misc]  # setuptools has no types
    """Collects the modules of each package but this one."""

    def find_package_modules(self, package: str, package_dir: str) -> list[tuple[str, str, str]]:
        found: list[tuple[str, str, str]] = super().find_package_modules(package, package_dir)
        return [entry for entry in found if entry[:2] != ("tierfetch", "setup")]


folders = find_packages(exclude=NOT_SHIPPED)
packages = ["tierfetch", *(f"tierfetch.{folder}" for folder in folders), "tierfetch.tests.conformance"]
setup(packages=packages, cmdclass={"build_py": BuildModules})
