"""What `import fedcsa` costs, against the import of numpy and scipy.linalg, in fresh processes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

from benchmarks.harness import compared, interleaved, options, write_provenance, write_table

BASE = "import numpy, scipy.linalg"
STATEMENTS = (
    "pass",
    BASE,
    "import fedcsa",
    "from fedcsa import ULSIF",
    "from fedcsa import Source, Target",
    "from fedcsa import FedCSA",
)


def start(statement: str) -> None:
    subprocess.run([sys.executable, "-c", statement], check=True)


def main(arguments: Sequence[str] | None = None) -> None:
    given = options(__doc__, arguments)
    repeats = given.repeats or (1 if given.quick else 15)
    statements = STATEMENTS[1:3] if given.quick else STATEMENTS
    functions = {statement: lambda s=statement: start(s) for statement in statements}
    if not given.quick:
        interleaved(functions, 1)  # so that all files are in the system's cache
    found = compared(interleaved(functions, repeats), BASE)
    lines = [  # the work is done in other processes, so only the clock tells
        {"statement": statement, **{key: numbers[key] for key in ("repeats", "seconds", "ratio")}}
        for statement, numbers in found.items()
    ]
    write_table(given.out, "imports", lines)
    write_provenance(given.out, "imports", {"repeats": repeats}, quick=given.quick)


if __name__ == "__main__":
    main()
