"""Tables in, matrices out: files, their agreed coding, and simulated ones."""
