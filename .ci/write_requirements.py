"""Write requirements.txt: every package of the development environment, exact, with its hashes.

    python .ci/write_requirements.py requirements.txt

Run it with the interpreter of an environment that holds the wanted versions. pip's package index
tells the hashes of *every* file of a version, so one list serves every platform. No address is
written down.
"""

import json
import os
import re
import subprocess
import sys
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from pathlib import Path

HEAD = """\
# Exact versions and hashes of the development environment. `make setup` installs them with
# `pip install --require-hashes`. `make requirements` writes this file.
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


def normal(text: str) -> str:
    """A name as the index spells it."""
    return re.sub(r"[-_.]+", "-", text).lower()


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


def main(path: Path) -> None:
    """Ask for the hashes of everything that is installed, and write them."""
    installed = json.loads(pip("list", "--format=json", "--exclude-editable"))
    pins = sorted((normal(one["name"]), one["version"]) for one in installed)
    pins = [pin for pin in pins if pin[0] not in {"pip", "setuptools", "fedcsa"}]
    at = index()
    with ThreadPoolExecutor(8) as pool:
        entries = pool.map(lambda pin: entry(at, *pin), pins)
        path.write_text(HEAD + "\n".join(entries) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
