"""A result as one HTML file, and its charts for a notebook."""
