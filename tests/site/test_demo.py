"""The README shows what the federation's demo prints; the engine only carries the bytes."""

import json
import re
from pathlib import Path

from fedcsa.cli.common import Output
from fedcsa.cli.federation_demo import _LEAD as LEAD
from fedcsa.cli.federation_demo import tell_what_left
from fedcsa.cli.study_screen import show_end
from fedcsa.messages.codec import decode
from fedcsa.messages.envelope import START, Envelope
from fedcsa.site.state import Status

README = Path(__file__).parents[2] / "README.md"
BLOCK = re.compile(
    r"<!-- begin:federation-demo -->\n```text\n\$ fedcsa study submit study.toml\n(.*?)  …\n```\n",
    re.DOTALL,
)


def test_the_readme_shows_what_the_demo_of_a_federation_prints(demo, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "88")
    monkeypatch.setenv("NO_COLOR", "1")
    demo.start = Envelope(demo.agreed.id, START, LEAD, "new", "")
    output = Output(json=False, quiet=False)
    told = decode(demo.attempt(min_sources=3).conclusion)
    capsys.readouterr()
    show_end(demo.ended(told, demo.folder / "result"), Path("kit"), output)
    tell_what_left(demo.folder, ["new", *demo.names], 0, output)
    printed = "".join(line.rstrip() + "\n" for line in capsys.readouterr().out.splitlines())
    shown = BLOCK.search(README.read_text(encoding="utf-8"))
    assert shown is not None
    assert "The conclusion is one text, closed for the lead: the answer above" in printed
    [line] = [x for x in Status(demo.folder / "new" / "state").lines() if "conclusion" in x["text"]]
    assert line["text"] == f"sent the answer without the model (conclusion), closed, to {LEAD}"
    assert shown.group(1) == printed[: len(shown.group(1))]
    # Rounded on the screen, and to the byte for programs.
    tell_what_left(demo.folder, ["abbey"], 0, Output(json=True, quiet=False))
    told = json.loads(capsys.readouterr().out)["left"]
    assert [line["bytes"] for line in told] == [x.entry.n_bytes for x in demo.log("abbey").sent]
