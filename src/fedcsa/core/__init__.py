"""The arithmetic of the method on numpy arrays: no I/O, no logging, no clock, no global generator."""
