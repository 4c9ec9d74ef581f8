"""The answer: one view of it, kept in a folder, shown on a terminal, in a notebook, on a page."""
