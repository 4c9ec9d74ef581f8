"""The tree of the package as a page, made from the code: python docs/tree.py prints it."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "fedcsa"
PAGE = ROOT / "docs" / "generated" / "tree.md"


def layers() -> list[str]:
    """Names directly below `fedcsa`, each after everything that it may import."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    contracts = tomllib.loads(text)["tool"]["importlinter"]["contracts"]
    [layered] = [contract for contract in contracts if contract["type"] == "layers"]
    told = [name.strip() for line in layered["layers"] for name in line.split("|")][::-1]
    return [name.removeprefix("fedcsa.") for name in told]


def tree_page() -> str:
    """A table for the modules beside the packages, and one for every package."""
    names = layers()
    single = [SOURCE / f"{name}.py" for name in names if (SOURCE / f"{name}.py").is_file()]
    single += [path for path in sorted(SOURCE.glob("*.py")) if path not in single]
    packages = [SOURCE / name for name in names if (SOURCE / name).is_dir()]
    parts = [_table("Beside the packages", "", [p for p in single if not p.stem.startswith("__")])]
    for package in packages:
        for folder in (package, *sorted(p.parent for p in package.glob("*/__init__.py"))):
            modules = [path for path in sorted(folder.glob("*.py")) if path.stem != "__init__"]
            heading = f"`{folder.relative_to(SOURCE).as_posix()}/`"
            parts.append(_table(heading, _first_line(folder / "__init__.py"), modules))
    return "\n\n".join(parts) + "\n"


def _table(heading: str, words: str, modules: list[Path]) -> str:
    lines = [f"| `{path.name}` | {_first_line(path)} |" for path in modules]
    told = [f"### {heading}", *([words] if words else [])]
    return "\n\n".join([*told, "\n".join(["| module | what it is |", "|---|---|", *lines])])


def _first_line(path: Path) -> str:
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return docstring.split("\n")[0].replace("``", "`").replace("|", "\\|")


def write_tree(_: Any) -> None:
    """Write the page for the build, which includes it."""
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(tree_page(), encoding="utf-8")


if __name__ == "__main__":
    print(tree_page())
