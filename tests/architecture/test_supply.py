"""What the build installs is pinned by hash, listed, and audited; where it is not, it says so."""

import importlib.util
import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LISTS = ("requirements.txt", "requirements-site.txt", "requirements-dev.txt")


def entries(name):
    text = (ROOT / name).read_text(encoding="utf-8").replace("\\\n", "")
    return [line for line in text.splitlines() if not line.startswith(("#", "-r "))]


ENTRIES = [entry for name in LISTS for entry in entries(name)]
PIN = re.compile(r"([a-z0-9-]+)==(\S+)((?: +--hash=sha256:[0-9a-f]{64})+)")


def load(name):
    path = ROOT / ".ci" / f"{name}.py"
    if str(path.parent) not in sys.path:  # the scripts import each other
        sys.path.append(str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def declared():
    yield from PROJECT["build-system"]["requires"]
    yield from PROJECT["project"]["dependencies"]
    for extra in PROJECT["project"]["optional-dependencies"].values():
        yield from extra


# Requirements ---------------------------------------------------------------------------------


def test_every_requirement_has_one_version_and_hashes_and_no_address():
    assert len(ENTRIES) > 100
    assert [entry for entry in ENTRIES if not PIN.fullmatch(entry.strip())] == []


def test_what_the_project_declares_is_pinned_to_a_version_it_allows():
    pins = dict(PIN.match(entry).groups()[:2] for entry in ENTRIES)
    for need in map(Requirement, declared()):
        name = re.sub(r"[-_.]+", "-", need.name).lower()
        if name != "fedcsa":
            assert need.specifier.contains(pins[name], prereleases=True), name


def test_no_package_is_pinned_twice_and_every_list_includes_the_one_before():
    names = [entry.split("==")[0] for entry in ENTRIES]
    assert len(names) == len(set(names))
    for before, name in pairwise(LISTS):
        assert f"\n-r {before}\n" in (ROOT / name).read_text(encoding="utf-8")


def test_a_list_names_all_that_its_extras_need():
    script, listed = load("write_requirements"), set()
    assert tuple(script.LISTS) == LISTS
    for name, (extras, _) in script.LISTS.items():
        listed |= {entry.split("==")[0] for entry in entries(name)}
        assert listed == script.needed(extras)


def test_the_build_installs_by_hash_and_nothing_else():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    rules = re.findall(r"^\$\((?:BASE|SITE|STAMP)\):.*?^\n", makefile, re.M | re.S)
    assert [re.findall(r"\$\(PIP\) (.*)", rule) for rule in rules] == [
        ["--no-deps --require-hashes -r requirements.txt", "--no-deps --no-build-isolation -e ."],
        ["--no-deps --require-hashes -r requirements-site.txt"],
        ["--no-deps --require-hashes -r requirements-dev.txt"],
    ]
    assert not any("pip install" in rule for rule in rules)


def test_a_demo_installs_no_tool_of_developers():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    needs = dict(re.findall(r"^((?:federation-)?demo): (\S+) ", makefile, re.M))
    assert needs == {"demo": "$(BASE)", "federation-demo": "$(SITE)"}


def test_a_build_runs_the_tests_the_bill_and_the_audit():
    targets = re.search(r"^make (.*)$", (ROOT / ".ci" / "run").read_text(encoding="utf-8"), re.M)[1]
    assert {"check", "test", "docs", "sbom", "audit"} <= set(targets.split())


def test_hashes_are_those_of_every_file_of_the_version_that_can_be_installed():
    files = {
        "a_b-1.0.tar.gz": "01",
        "a_b-1.0-py3-none-any.whl": "02",
        "a_b-1.0-cp312-cp312-win_amd64.whl": "03",
        "a_b-1.0-cp39-abi3-macosx_11_0_arm64.whl": "04",
        "a_b-1.0-cp39-cp39-win_amd64.whl": "too old",
        "a_b-1.0-cp310-cp310-win_amd64.whl": "too old",
        "a_b-1.0-cp313-cp313t-win_amd64.whl": "without a lock",
        "a_b-1.0-pp311-pypy311_pp73-win_amd64.whl": "another Python",
        "a_b-1.0.1-py3-none-any.whl": "another version",
        "a-1.0-py3-none-any.whl": "another package",
    }
    page = "".join(f'<a href="../x/{file}#sha256={code}">f</a>' for file, code in files.items())
    assert load("write_requirements").hashes(page, "A.b", "1.0") == ["01", "02", "03", "04"]


# Bill of materials ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bill(tmp_path_factory):
    path = tmp_path_factory.mktemp("sbom") / "dist" / "bill.json"
    load("write_sbom").main(path)
    return json.loads(path.read_text(encoding="utf-8"))


def test_a_bill_has_the_fields_that_its_format_demands(bill):
    assert (bill["bomFormat"], bill["specVersion"], bill["version"]) == ("CycloneDX", "1.6", 1)
    assert re.fullmatch(r"urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", bill["serialNumber"])
    product = bill["metadata"]["component"]
    assert (product["type"], product["name"]) == ("application", "fedcsa")
    for one in [product, *bill["components"]]:
        assert {"type", "name", "version", "bom-ref", "purl"} <= set(one)
        assert one["purl"] == f"pkg:pypi/{one['name']}@{one['version']}"
        assert one["name"] == "fedcsa" or one["version"] == version(one["name"])


def test_every_dependency_of_a_bill_is_one_of_its_components(bill):
    names = [one["bom-ref"] for one in bill["components"]]
    assert names == sorted(set(names))
    graph = {one["ref"]: one["dependsOn"] for one in bill["dependencies"]}
    assert set(graph) == {"fedcsa", *names}
    assert {need for needs in graph.values() for need in needs} == set(names)


def test_a_bill_lists_what_a_site_installs_and_no_tool_of_developers(bill):
    names = {one["name"] for one in bill["components"]}
    assert {"numpy", "scipy", "scikit-learn", "nvflare", "grpcio", "jinja2", "pyarrow"} <= names
    assert not {"pytest", "ruff", "sphinx", "pip-audit"} & names


def test_the_same_environment_gives_the_same_bill(bill):
    assert load("write_sbom").bill() == bill


# Audit ----------------------------------------------------------------------------------------

CLEAN = {"name": "a", "version": "1", "vulns": []}
BAD = {"name": "b", "version": "2", "vulns": [{"id": "X-1"}, {"id": "X-2"}]}
SKIPPED = {"name": "c", "skip_reason": "nobody answers"}


def audited(monkeypatch, tmp_path, packages=None, error=""):
    audit = load("audit")

    def run(*_, **__):
        told = "" if packages is None else json.dumps({"dependencies": packages})
        return subprocess.CompletedProcess((), 0, told, error)

    monkeypatch.setattr(audit.subprocess, "run", run)
    record = tmp_path / "dist" / "audit.json"
    return audit.main(ROOT / "requirements-dev.txt", record), json.loads(record.read_text())


def test_an_audit_without_findings_ends_well(monkeypatch, tmp_path, capsys):
    code, record = audited(monkeypatch, tmp_path, [CLEAN])
    assert (code, record["audited"], record["not_audited"]) == (0, 1, [])
    assert "NOT AUDITED" not in capsys.readouterr().out


def test_a_vulnerable_package_fails_the_audit_by_name(monkeypatch, tmp_path, capsys):
    code, record = audited(monkeypatch, tmp_path, [CLEAN, BAD, SKIPPED])
    assert (code, record["vulnerable"]) == (1, {"b 2": ["X-1", "X-2"]})
    assert "VULNERABLE: b 2: X-1, X-2" in capsys.readouterr().out


def test_packages_that_nobody_knows_are_not_called_audited(monkeypatch, tmp_path, capsys):
    code, record = audited(monkeypatch, tmp_path, [SKIPPED])
    assert (code, record["audited"], record["not_audited"]) == (0, 0, ["c"])
    assert "NOT AUDITED: 1 packages. nobody answers" in capsys.readouterr().out


def test_an_audit_that_breaks_off_says_why(monkeypatch, tmp_path, capsys):
    code, record = audited(monkeypatch, tmp_path, error="a trace\nno route to the service\n")
    assert (code, record["audited"], record["why_not"]) == (0, 0, "no route to the service")
    assert "NOT AUDITED" in capsys.readouterr().out
