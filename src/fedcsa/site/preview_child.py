"""Computes one preview in a process of its own: a study's text in, the preview as JSON out."""

from __future__ import annotations

import json
import sys
from typing import Any

from fedcsa.errors import FedCSAError
from fedcsa.site.preview import preview
from fedcsa.site.site_file import SiteFile


def looked(text: str, site_file: str) -> dict[str, Any]:
    """The preview of a study at a site, or why there is none.

    Parameters
    ----------
    text : str
        Of the agreed study.
    site_file : str
        Path of the site's file.
    """
    try:
        return preview(text, SiteFile.load(site_file))
    except FedCSAError as error:
        return {"error": str(error)}
    except Exception as error:  # its text may quote anything
        return {"error": f"The preview failed ({type(error).__name__})."}


if __name__ == "__main__":
    json.dump(looked(sys.stdin.buffer.read().decode(), sys.argv[1]), sys.stdout)
