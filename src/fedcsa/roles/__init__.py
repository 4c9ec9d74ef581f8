"""The two roles: each turns a message into a message, and neither knows that a wire exists."""
