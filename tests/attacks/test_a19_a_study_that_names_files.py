"""A19: a study, or the server that carries it, names a file of the site to which it comes.

The path of a formula or of a given model was opened at every site before the lead's signature was
looked at: any file, a device that never ends, and an error that told whether it was there. Now what
sites agree on has no path in it, and nothing is opened.
"""

import sys
from contextlib import contextmanager

import pytest

from fedcsa.errors import StudyError
from fedcsa.site.agreed import AgreedStudy

ROWS = 'table = "rows.csv"'
RIDGE = 'name = "ridge"'
#: way -> [target], [sources.abbey], [model], with SECRET where a path may stand
WAYS = {
    "table of the target": ('table = "SECRET"', ROWS, RIDGE),
    "table of a source": (ROWS, 'table = "SECRET"', RIDGE),
    "sheet": (ROWS, 'table = "SECRET"\nsheet = "SECRET"', RIDGE),
    "Table 1": ('table1 = "SECRET"', ROWS, RIDGE),
    "database": (ROWS, 'database = "SECRET"\nquery = "SELECT 1 ORDER BY 1"', RIDGE),
    "formula": (ROWS, ROWS, 'name = "given"\nformula = "SECRET"'),
    "file": (ROWS, ROWS, 'name = "given"\nfile = "SECRET"'),
    "file and digest": (ROWS, ROWS, f'name = "given"\nfile = "SECRET"\nsha256 = "{"0" * 64}"'),
}
#: Nothing to be judged is left without its path.
REFUSED = ("formula", "file")

_opened: list[str] = []
_hooked: list[bool] = []


def _listen(event, arguments):
    if event == "open" and _hooked[-1]:
        _opened.append(str(arguments[0]))


@contextmanager
def opened_files():
    """Names of all files that are opened inside, by whichever way."""
    if not _hooked:
        _hooked.append(False)
        sys.addaudithook(_listen)
    _opened.clear()
    _hooked[-1] = True
    try:
        yield _opened
    finally:
        _hooked[-1] = False


@pytest.mark.parametrize("way", WAYS)
def test_a_study_that_comes_opens_no_file_of_a_site_and_keeps_no_path(way, tmp_path):
    secret = tmp_path / "secret.toml"
    secret.write_text("intercept = 1.5\n[terms]\nage = 0.1\n")
    parts = (part.replace("SECRET", str(secret)) for part in WAYS[way])
    target, source, model = parts
    text = (
        f'name = "small"\nseed = 3\n[outcome]\nname = "outcome"\n[features]\nage = "number"\n'
        f"[model]\n{model}\n[target]\n{target}\n[sources.abbey]\n{source}\n"
    )
    with opened_files() as opened:
        if way in REFUSED:
            with pytest.raises(StudyError) as raised:
                AgreedStudy(text)
            assert "secret" not in str(raised.value)
        else:
            agreed = AgreedStudy(text)
            agreed.study.plan()
            assert "secret" not in agreed.text
    assert str(secret) not in opened
    with opened_files() as opened:  # it would have been seen
        secret.read_bytes()
    assert str(secret) in opened
