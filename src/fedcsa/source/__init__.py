"""A site with outcomes: it weights its rows, measures, fits, and examines the others."""
