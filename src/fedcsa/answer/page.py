"""From a result folder to one HTML file."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from fedcsa import __version__
from fedcsa.answer.folder import Folder, read_folder
from fedcsa.errors import FedCSAError, MissingExtraError, ResultError

REPORT = "report.html"


def require_report() -> None:
    """Raise a `MissingExtraError` unless a report can be made here."""
    for package in ("jinja2", "matplotlib"):
        if find_spec(package) is None:
            raise MissingExtraError(package, "report", "A report")


def write_report(folder: str | Path, out: str | Path | None = None) -> Path:
    """Write the report of a result folder: one file that needs nothing else.

    Parameters
    ----------
    folder : path
        A result folder; its models are not needed.
    out : path, optional
        By default ``report.html`` in the folder.
    """
    require_report()
    folder = Path(folder)
    text = render(read_folder(folder), folder)
    path = folder / REPORT if out is None else Path(out)
    path.write_text(text, encoding="utf-8")
    return path


def render(content: Folder, where: Path) -> str:
    """The page as text."""
    import jinja2
    from markupsafe import Markup

    from fedcsa.answer.assemble import assemble

    try:
        page = assemble(content, __version__)
    except FedCSAError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
        raise ResultError(
            f"The result in {str(where)!r} is damaged: something is missing or was changed. "
            "Run the study again, or restore it from a backup."
        ) from None
    style, script = _asset("style.css"), _asset("script.js")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(_asset("page.html.jinja")).render(
        page=page,
        style=Markup(style),  # noqa: S704 - files of this package
        script=Markup(script),  # noqa: S704
        policy=_policy(style, script),
        version=__version__,
    )


def _policy(style: str, script: str) -> str:
    """No request to anywhere; the one style sheet and the one script, by their hashes."""
    return (
        f"default-src 'none'; style-src {_digest(style)}; script-src {_digest(script)}; "
        "base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _asset(name: str) -> str:
    return files("fedcsa.answer").joinpath(name).read_text(encoding="utf-8")
