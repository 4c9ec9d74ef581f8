"""Take the picture of the demo's report that the README shows: python docs/picture.py."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright
from typer.testing import CliRunner

from fedcsa.cli.app import app

OUT = Path(__file__).parent / "_static" / "report.png"
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]


def main() -> None:
    """Run the demo, open its report, and keep the top of the page."""
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "demo"
        ran = CliRunner().invoke(app, ["demo", "--out", str(out), "--quiet"])
        if ran.exit_code:
            raise SystemExit(ran.output)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=FLAGS
            )
            page = browser.new_page(viewport={"width": 900, "height": 1240}, color_scheme="light")
            page.goto((out / "result" / "report.html").as_uri())
            page.screenshot(path=OUT)
            browser.close()


if __name__ == "__main__":
    main()
