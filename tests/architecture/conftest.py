"""The source, parsed once for all who look at its shape."""

import ast
from pathlib import Path

import pytest

import fedcsa


@pytest.fixture(scope="session")
def trees():
    """Every module, by its path below the package."""
    home = Path(fedcsa.__file__).parent
    return {
        path.relative_to(home).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(home.rglob("*.py"))
    }
