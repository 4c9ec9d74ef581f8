"""Ask pip-audit for known vulnerabilities of what is pinned, and say plainly if it got no answer.

    python .ci/audit.py requirements-dev.txt dist/audit.json

pip-audit ends well if the vulnerability service knows no package at all, as behind a mirror. This
script counts such packages as not audited. Exit code 1: a package is vulnerable. Exit code 0:
none of those that were audited is; the last line and the record say how many were.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

#: pip-audit asks one question per package; a dead network must not hold a build for longer.
SECONDS = 180


def summary(report: dict[str, Any]) -> dict[str, Any]:
    """What a report of pip-audit says of each package.

    >>> known = {"name": "a", "version": "1", "vulns": [{"id": "X-1"}]}
    >>> summary({"dependencies": [known, {"name": "b", "skip_reason": "not found"}]})
    {'audited': 1, 'not_audited': ['b'], 'vulnerable': {'a 1': ['X-1']}, 'why_not': 'not found'}
    """
    packages = report["dependencies"]
    skipped = [one for one in packages if "skip_reason" in one]
    found = {
        f"{one['name']} {one['version']}": [vulnerability["id"] for vulnerability in one["vulns"]]
        for one in packages
        if one.get("vulns")
    }
    return {
        "audited": len(packages) - len(skipped),
        "not_audited": [one["name"] for one in skipped],
        "vulnerable": found,
        "why_not": skipped[0]["skip_reason"] if skipped else "",
    }


def asked(requirements: Path) -> dict[str, Any]:
    """The summary of what pip-audit says, or of why it says nothing."""
    command = [sys.executable, "-m", "pip_audit", "--requirement", str(requirements)]
    command += [
        "--require-hashes",
        "--disable-pip",
        "--progress-spinner=off",
        "--timeout=5",
        "--format=json",
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)  # noqa: S603
        return summary(json.loads(done.stdout))
    except subprocess.TimeoutExpired:
        why = f"no answer within {SECONDS} seconds"
    except json.JSONDecodeError:
        why = (done.stderr.strip().splitlines() or ["pip-audit said nothing"])[-1]
    return {"audited": 0, "not_audited": ["every package"], "vulnerable": {}, "why_not": why}


def main(requirements: Path, record: Path) -> int:
    """Audit, write the record, and tell."""
    told = asked(requirements)
    record.parent.mkdir(parents=True, exist_ok=True)
    record.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    for package, names in told["vulnerable"].items():
        print(f"VULNERABLE: {package}: {', '.join(names)}. Choose another version.")
    if told["not_audited"]:
        print(f"NOT AUDITED: {len(told['not_audited'])} packages. {told['why_not']}")
        print("Run `make audit` where the vulnerability service can be reached.")
    print(f"{told['audited']} packages audited, {len(told['vulnerable'])} vulnerable ({record})")
    return 1 if told["vulnerable"] else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
