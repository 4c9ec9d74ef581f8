"""Reporting checklists, filled from a result as far as it knows the answers."""
