"""Write the software bill of materials of fedcsa: CycloneDX 1.6, as JSON.

    python .ci/write_sbom.py dist/fedcsa.cdx.json

It lists what a site installs with `pip install "fedcsa[all,federation,page]"`, as installed in this
environment. Hashes are in requirements*.txt. The same environment gives the same bytes: there is no
time and no random number in it.
"""

from __future__ import annotations

import json
import re
import sys
import uuid
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

#: What a site installs beyond the package itself; what only developers need is not listed.
EXTRAS = frozenset({"all", "federation", "page"})
#: Longer fields hold the text of a licence, not its name.
LONGEST_NAME = 80


def normal(name: str) -> str:
    """A name as package indexes spell it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def wanted(one: Distribution, extras: frozenset[str]) -> dict[str, frozenset[str]]:
    """What a package needs here, with the extras it wants of each."""
    found: dict[str, frozenset[str]] = {}
    for line in one.requires or ():
        need = Requirement(line)
        chosen = ({"extra": extra} for extra in extras or {""})
        if need.marker is None or any(need.marker.evaluate(extra) for extra in chosen):
            name = normal(need.name)
            found[name] = found.get(name, frozenset()) | frozenset(need.extras)
    return found


def closure(
    name: str, extras: frozenset[str]
) -> tuple[dict[str, Distribution], dict[str, list[str]]]:
    """Every package that one needs, and who needs whom."""
    packages: dict[str, Distribution] = {}
    needs: dict[str, list[str]] = {}
    waiting, seen = [(name, extras)], set()
    while waiting:
        at, of = waiting.pop()
        if (at, of) in seen:
            continue
        seen.add((at, of))
        packages[at] = distribution(at)
        found = wanted(packages[at], of)
        needs[at] = sorted({*needs.get(at, ()), *found} - {at})
        waiting += list(found.items())
    return packages, needs


def licence(one: Distribution) -> list[dict[str, Any]]:
    """The licence that a package states: as an expression, by name, or as a classifier."""
    fields = one.metadata.json
    if fields.get("license_expression"):
        return [{"expression": fields["license_expression"]}]
    names = [fields.get("license", ""), *fields.get("classifier", ())]
    names = [name.removeprefix("License :: OSI Approved :: ") for name in names]
    names = [name for name in names if 0 < len(name) < LONGEST_NAME and " :: " not in name]
    return [{"license": {"name": name}} for name in names[:1]]


def component(one: Distribution) -> dict[str, Any]:
    """One package, as CycloneDX writes it."""
    name, version = normal(one.metadata["Name"]), one.version
    return {
        "type": "library",
        "bom-ref": name,
        "name": name,
        "version": version,
        "purl": f"pkg:pypi/{name}@{version}",
        "licenses": licence(one),
    }


def bill() -> dict[str, Any]:
    """The whole bill."""
    packages, needs = closure("fedcsa", EXTRAS)
    parts = {name: component(packages[name]) for name in sorted(packages)}
    product = {**parts.pop("fedcsa"), "type": "application"}
    told = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": product},
        "components": list(parts.values()),
        "dependencies": [{"ref": name, "dependsOn": needs[name]} for name in sorted(needs)],
    }
    number = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(told, sort_keys=True))
    return {"serialNumber": f"urn:uuid:{number}", **told}


def main(path: Path) -> None:
    """Write the bill."""
    told = bill()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{path}: {len(told['components'])} packages")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
