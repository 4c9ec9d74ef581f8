"""Take the pictures of the README and of the steward's guide: python docs/picture.py."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from click.testing import CliRunner
from playwright.sync_api import Browser, sync_playwright

from fedcsa.cli.app import app
from fedcsa.cli.federation_demo import write_sites
from fedcsa.loopback.pages import served
from fedcsa.messages.codec import encode
from fedcsa.messages.policy import Policy
from fedcsa.site.agreed import AgreedStudy
from fedcsa.site.log import SiteLog
from fedcsa.site.site_file import SiteFile
from fedcsa.site.state import Status
from fedcsa.site.steward_page import StewardPage
from fedcsa.target.target import Target

PICTURES = Path(__file__).parent / "_static"
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]


def main() -> None:
    """Make what the pictures show, and take them."""
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        take_report(browser, Path(scratch) / "demo")
        take_steward(browser, Path(scratch) / "sites")
        browser.close()


def take_report(browser: Browser, out: Path) -> None:
    """Run the demo, open its report, and keep the top of the page."""
    ran = CliRunner().invoke(app, ["demo", "--out", str(out), "--quiet"])
    if ran.exit_code:
        raise SystemExit(ran.output)
    page = browser.new_page(viewport={"width": 900, "height": 1240}, color_scheme="light")
    page.goto((out / "result" / "report.html").as_uri())
    page.screenshot(path=PICTURES / "report.png")


def take_steward(browser: Browser, out: Path) -> None:
    """Let a study wait at a site of the demo, and keep what its steward sees of it."""
    write_sites(out, 0)
    wait_at(out / "abbey", out / "new", AgreedStudy((out / "study.toml").read_text("utf-8")))
    shown = StewardPage(out / "abbey" / "site.toml", "abbey", lambda: True, "Ada Lovelace")
    with served(shown.views, "") as guard:
        page = browser.new_page(viewport={"width": 900, "height": 1240}, color_scheme="light")
        page.goto(guard.new_link())
        page.get_by_role("link", name="See what would leave").click()
        page.get_by_role("button", name="Approve").wait_for(timeout=120_000)
        page.get_by_role("button", name="Approve").scroll_into_view_if_needed()
        page.screenshot(path=PICTURES / "steward.png", full_page=True)
    shown.end()


def wait_at(source: Path, target: Path, agreed: AgreedStudy) -> None:
    """Write into a source's log that the target's brief waits."""
    site = source / "site.toml"
    site.write_text('table = "patients.csv"\napprove = true\n', encoding="utf-8")
    rows = SiteFile.load(target / "site.toml").read_target(agreed.study)
    brief = Target(rows, agreed.study.plan(), policy=Policy.open()).brief([])
    folder = SiteFile.load(site).state_folder
    log = SiteLog(folder)
    log.append(
        "waiting", study=agreed.name, target="new", phase="risk", id=agreed.id, site="abbey",
        request=log.keep(encode(brief)), agreed=log.keep(agreed.text.encode()),
        lead="lead@demo.org", time=log.time,
    )  # fmt: skip
    Status(folder).say("connected, waiting for a study")


if __name__ == "__main__":
    main()
