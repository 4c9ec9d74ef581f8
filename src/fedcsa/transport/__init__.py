"""The only layer that talks to other sites."""
