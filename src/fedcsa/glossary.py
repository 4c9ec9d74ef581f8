"""The words of fedcsa, as the glossary of the documentation has them."""

from __future__ import annotations

import re
from pathlib import Path


def glossary() -> dict[str, str]:
    """Every word, or several with a comma between them, and what it means, in plain text.

    >>> glossary()["row"]
    "One patient's measurements; a line of a table."
    """
    text = Path(__file__).with_name("glossary.md").read_text(encoding="utf-8")
    return {
        words: _plain(meaning)
        for words, meaning in re.findall(r"^(\w.*)\n((?:  .+\n)+)", text, re.M)
    }


def _plain(markdown: str) -> str:
    """One paragraph without marks; pages are named by their files."""
    text = " ".join(markdown.split())
    text = re.sub(r"\[\]\(([\w-]+\.md)\)", r"docs/\1", text)
    text = re.sub(r"\[([^]]+)\]\(([\w-]+\.md)\)", r"\1 (docs/\2)", text)
    return re.sub(r"\*(\w[^*]*)\*|`([^`]+)`", r"\1\2", text)
