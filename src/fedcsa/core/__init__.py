"""The arithmetic of the method on arrays: no I/O, no logging, no clock, no global generator."""
