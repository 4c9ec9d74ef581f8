"""What all tests share: one thread for small matrices, and hypothesis's files out of the way."""

import getpass
import os
import tempfile
from pathlib import Path

# Before numpy is loaded. Threads only cost on matrices this small, and most where tests run
# beside something else.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")
os.environ.setdefault(
    "HYPOTHESIS_STORAGE_DIRECTORY",
    str(Path(tempfile.gettempdir()) / f"fedcsa-hypothesis-{getpass.getuser()}"),
)

#: Files that take minutes: where there are several processes, one begins with each.
LONG = ("tests/federation/test_engine.py", "tests/test_console.py")


def pytest_collection_modifyitems(items):
    """Begin with the long files, so that none is left to one process at the end."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONG))
