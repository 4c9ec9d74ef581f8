"""Run the tutorials on published data, and keep what they print and draw as pages.

    FEDCSA_DATA=the/folder python docs/record.py

The data are not part of the project, so these pages are made once and kept in ``docs/tutorials``:
everybody who builds the documentation sees the same output, with the data or without. A test runs
the tutorials again where the data are.
"""

from __future__ import annotations

import ast
import contextlib
import gzip
import hashlib
import io
import os
import sys
import textwrap
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS, PAGES = ROOT / "examples" / "tutorials", ROOT / "docs" / "tutorials"
#: The sha256 of every file that a tutorial reads; of what is packed, the bytes inside.
FILES = {
    "plot_1_stroke": {
        "stroke_trial/IST.csv.gz": "14ba957322d5ccbe4cd240692f1c8c70246c718076d3346a229015c440b03b54"  # noqa: E501
    },
    "plot_2_pipeline": {
        "heart_disease/processed.cleveland.data": "a74b7efa387bc9d108d7d0115d831fe9b414b29ae7124f331b622b4efa0427c8",  # noqa: E501
        "heart_disease/processed.hungarian.data": "d1ad108f785768cd3d7e82dc522e6f5a61eea93cccfb3a46ee8076f73fc3d796",  # noqa: E501
        "heart_disease/processed.switzerland.data": "834a405ccf5b66ab4056bb77794adc8df0b7125186454c0a1d002d33c6c3b314",  # noqa: E501
        "heart_disease/processed.va.data": "e7c93d8d0d2acdadfa4c5e8de768e2191e7f618b952e29623f1f0d5949ff6b8f",  # noqa: E501
    },
    "plot_3_friday": {
        "stroke_trial/IST.csv.gz": "14ba957322d5ccbe4cd240692f1c8c70246c718076d3346a229015c440b03b54"  # noqa: E501
    },
}
HEAD = """\
.. `python docs/record.py` wrote this page from {script}; edit that file.

"""
TAIL = """
The data that these outputs were made of, by their sha256:

.. code-block:: none

{digests}

The whole as a script: :download:`{script} </../examples/tutorials/{script}>`.
"""


def digest(path: Path) -> str:
    """The sha256 of a file, unpacked if it is packed."""
    content = path.read_bytes()
    content = gzip.decompress(content) if path.suffix == ".gz" else content
    return hashlib.sha256(content).hexdigest()


def has_data(folder: Path, name: str) -> bool:
    """Whether all files of a tutorial are there, with the bytes that its page was made of."""
    return all(
        (folder / file).is_file() and digest(folder / file) == told
        for file, told in FILES[name].items()
    )


def printed(code: str, names: dict[str, Any]) -> tuple[str, Any]:
    """What a piece of code prints, and the value of its last line."""
    parsed = ast.parse(code)
    last = parsed.body.pop() if parsed.body and isinstance(parsed.body[-1], ast.Expr) else None
    came = io.StringIO()
    with contextlib.redirect_stdout(came), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "FigureCanvasAgg is non-interactive")  # it is kept
        exec(compile(parsed, "tutorial", "exec"), names)  # noqa: S102 - our own tutorials
        value = None
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "tutorial", "eval"), names)  # noqa: S307
    return came.getvalue(), value


def drawn(value: Any) -> Iterator[tuple[str, bytes]]:
    """The ending and the bytes of every figure that a piece of code has made."""
    import matplotlib.pyplot as plt

    if hasattr(value, "_repr_svg_"):
        yield "svg", value._repr_svg_().encode()
    for number in plt.get_fignums():
        file = io.BytesIO()
        plt.figure(number).savefig(file, format="png", dpi=120, metadata={"Software": None})
        yield "png", file.getvalue()
    plt.close("all")


def block(text: str, language: str) -> str:
    """A block of code or of output."""
    body = textwrap.indent(text.strip("\n"), "    ")
    if language == "none":  # the class gives it the look of an output
        body = textwrap.indent(body, " ")
        return f".. rst-class:: sphx-glr-script-out\n\n .. code-block:: none\n\n{body}\n\n"
    return f".. code-block:: {language}\n\n{body}\n\n"


def page(name: str) -> tuple[str, dict[str, bytes]]:
    """The page of a tutorial, and its figures by their names; runs it."""
    from sphinx_gallery.py_source_parser import split_code_and_text_blocks

    names: dict[str, Any] = {"__name__": "__main__"}
    text, figures = HEAD.format(script=f"examples/tutorials/{name}.py"), {}
    _, pieces = split_code_and_text_blocks(SCRIPTS / f"{name}.py")
    for kind, content, *_ in pieces:
        if kind == "text":
            text += content.strip("\n") + "\n\n"
            continue
        came, value = printed(content, names)
        text += block(content, "python")
        for ending, picture in drawn(value):
            file = f"{name}_{len(figures) + 1}.{ending}"
            figures[file] = picture
            text += f".. image:: {file}\n   :alt: what the code above draws\n\n"
        if value is not None and not hasattr(value, "_repr_svg_"):
            came += repr(value)
        text += block(came, "none") if came.strip() else ""
    digests = "".join(f"    {told}  {file}\n" for file, told in FILES[name].items())
    return text + TAIL.format(digests=digests.rstrip("\n"), script=f"{name}.py"), figures


def main() -> None:
    """Write every page and its figures."""
    import matplotlib as mpl

    mpl.use("agg")
    folder = Path(os.environ.get("FEDCSA_DATA", "data"))
    for name in FILES:
        if not has_data(folder, name):
            sys.exit(f"{folder} must hold {', '.join(FILES[name])}, with the sha256 of record.py.")
        text, figures = page(name)
        (PAGES / f"{name}.rst").write_text(text, encoding="utf-8")
        for file, content in figures.items():
            (PAGES / file).write_bytes(content)


if __name__ == "__main__":
    main()
