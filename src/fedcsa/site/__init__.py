"""One site of a federation: its own file, its state on disk, and its desk for messages."""
