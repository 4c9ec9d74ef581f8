"""What the demo recommends next."""

import io
from pathlib import Path

from fedcsa.cli.common import Screen
from fedcsa.cli.demo_command import _print_next


def test_every_recommended_command_stays_in_the_demos_folder():
    screen = Screen(record=True, width=200, file=io.StringIO())
    _print_next(screen, Path("demo"), "Report in demo/result/report.html")
    lines = [line.split() for line in screen.export_text().splitlines() if line.startswith("  ")]
    assert [words[1] for words in lines][:2] == ["run", "backtest"]
    for words in lines:
        places = [word for word in words[2:] if not word.startswith("--")]
        assert places
        assert all(place.startswith("demo/") for place in places)
    run = lines[0]
    assert run[run.index("--out") + 1] == "demo/again"  # the demo's own result stays


def test_a_folder_that_cannot_be_written_is_refused_before_anything_is_computed(
    tmp_path, invoke, monkeypatch
):
    (tmp_path / "demo").write_text("a file", encoding="utf-8")
    monkeypatch.setattr("fedcsa.data.synthetic.consortium", None)
    refused = invoke("demo", "--out", tmp_path / "demo")
    assert refused.exit_code == 3
    assert str(tmp_path / "demo") in refused.stderr.replace("\n", "")
