"""How much a newcomer meets who steps through one `fit` and one `predict`."""

import json
import subprocess
import sys

#: Files, functions and classes that the simplest use crosses, at most; a change may lower them.
#: A comprehension is a function of its own here, as it was where this was first counted (42, 300
#: and 24, before sources examined each other); from Python 3.12 on most of them are none.
MOST = {"files": 37, "functions": 250, "classes": 31}

CODE = """
import json, sys, threading
from pathlib import Path
import numpy as np
import fedcsa
from fedcsa import FedCSA

home = str(Path(fedcsa.__file__).parent)
met = {"files": set(), "functions": set(), "classes": set()}

def look(frame, event, _):
    code = frame.f_code
    if event != "call" or not code.co_filename.startswith(home):
        return
    met["files"].add(code.co_filename)
    met["functions"].add((code.co_filename, code.co_qualname))
    if "self" in frame.f_locals:
        met["classes"].add(type(frame.f_locals["self"]))

rng = np.random.default_rng(0)
def site(rows):
    X = rng.normal(size=(rows, 4))
    return X, X.sum(axis=1) + rng.normal(size=rows)
sources, (new, _) = {name: site(300) for name in "abc"}, site(150)
threading.setprofile(look); sys.setprofile(look)
FedCSA(random_state=0).fit(sources, new).predict(new)
sys.setprofile(None); threading.setprofile(None)
print(json.dumps({what: len(which) for what, which in met.items()}))
"""


def test_the_simplest_use_crosses_no_more_than_before():
    command = [sys.executable, "-c", CODE]
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    crossed = json.loads(done.stdout)
    assert all(count > 0 for count in crossed.values())
    assert {what: crossed[what] for what in MOST if crossed[what] > MOST[what]} == {}
