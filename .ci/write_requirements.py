"""Write requirements.txt, -site.txt and -dev.txt: every package, exact, with its hashes.

    python .ci/write_requirements.py .

Each list includes the one before it, and no package is in two of them. Run it with the interpreter
of an environment that holds the wanted versions. pip's package index tells the hashes of *every*
file of a version, so one list serves every platform. No address is written down.
"""

import json
import os
import re
import subprocess
import sys
import tomllib
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from pathlib import Path

from packaging.requirements import Requirement
from write_sbom import closure, normal

_FILE = Path(__file__).parents[1] / "pyproject.toml"
PROJECT = tomllib.loads(_FILE.read_text(encoding="utf-8"))["project"]
#: Each list includes the one before it: its name, the extras it covers, and whom it serves.
LISTS = {
    "requirements.txt": ((), "what fedcsa needs, extras aside: `make demo` installs it"),
    "requirements-site.txt": (("all", "federation", "page"), "what a site of a federation needs"),
    "requirements-dev.txt": (("dev",), "the tools of developers: `make setup` installs all"),
}
HEAD = """\
# Exact versions and hashes of {what}.
# `pip install --no-deps --require-hashes -r` takes this file; `make requirements` writes it.
"""
#: Names of files that pip installs: wheels and archives of source.
FILE = re.compile(r"(?P<name>.+?)-(?P<version>[^-]+)(?:-.+\.whl|\.tar\.gz|\.zip)$")
#: Wheels that no supported interpreter (CPython 3.11 or newer) can install.
FOREIGN = re.compile(r"-(?:pp\d+|cp2\d|cp3\d-cp3|cp310-cp3|cp3\d+-cp3\d+t)")


class Links(HTMLParser):
    """The links of a page of a package index."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep the address of a link."""
        if tag == "a":
            self.links += [value for name, value in attrs if name == "href" and value]


def pip(*arguments: str) -> str:
    """What pip of this environment prints."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603


def index() -> str:
    """The address of the package index that pip uses."""
    default = "import pip._internal.models.index as i; print(i.PyPI.simple_url)"
    told = os.environ.get("PIP_INDEX_URL") or dict(
        line.split("=", 1) for line in pip("config", "list").splitlines() if "=" in line
    ).get("global.index-url", "").strip("'")
    asked = [sys.executable, "-c", default]
    return told or subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()  # noqa: S603


def hashes(page: str, name: str, version: str) -> list[str]:
    """The sha256 of every file of one version that a page of the index lists.

    >>> page = '<a href="x/a_b-1.0-py3-none-any.whl#sha256=2f"> <a href="a_b-1.1.zip#sha256=3f">'
    >>> hashes(page, "a-b", "1.0")
    ['2f']
    """
    links = Links()
    links.feed(page)
    found = set()
    for link in links.links:
        path, fragment = urllib.parse.urldefrag(link)
        file = FILE.match(urllib.parse.unquote(path.rsplit("/", 1)[-1]))
        if not file or FOREIGN.search(file[0]) or not fragment.startswith("sha256="):
            continue
        if (normal(file["name"]), file["version"]) == (normal(name), version):
            found.add(fragment.removeprefix("sha256="))
    return sorted(found)


def entry(at: str, name: str, version: str) -> str:
    """The lines of one package."""
    with urllib.request.urlopen(f"{at.rstrip('/')}/{normal(name)}/", timeout=60) as answer:  # noqa: S310
        found = hashes(answer.read().decode(), name, version)
    if not found:
        raise SystemExit(f"The package index lists no hash for {name} {version}.")
    return " \\\n".join([f"{name}=={version}", *(f"    --hash=sha256:{one}" for one in found)])


def declared(extras: Sequence[str]) -> Iterator[Requirement]:
    """What the project declares for a list of extras; what builds it belongs to every list."""
    yield Requirement("hatchling")
    lines = [*PROJECT["dependencies"]]
    for extra in extras:
        lines += PROJECT["optional-dependencies"][extra]
    for need in map(Requirement, lines):
        if need.name == PROJECT["name"]:
            yield from declared(sorted(need.extras))
        else:
            yield need


def needed(extras: Sequence[str]) -> set[str]:
    """Every package that a list must name, as installed in this environment."""
    found: set[str] = set()
    for need in declared(extras):
        found |= set(closure(normal(need.name), frozenset(need.extras))[0])
    return found - {"pip", "setuptools"}  # an environment has them already


def main(folder: Path) -> None:
    """Ask for the hashes of everything that is installed, and write them."""
    installed = json.loads(pip("list", "--format=json", "--exclude-editable"))
    pins = sorted((normal(one["name"]), one["version"]) for one in installed)
    at, before, last = index(), "", set[str]()
    with ThreadPoolExecutor(8) as pool:
        for name, (extras, what) in LISTS.items():
            names = needed(extras) - last
            here = [pin for pin in pins if pin[0] in names]
            entries = pool.map(lambda pin: entry(at, *pin), here)
            text = HEAD.format(what=what) + before + "\n".join(entries) + "\n"
            (folder / name).write_text(text, encoding="utf-8")
            before, last = f"-r {name}\n", last | names


if __name__ == "__main__":
    main(Path(sys.argv[1]))
