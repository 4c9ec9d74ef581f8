"""What a source can fit, how it is described, and how a fitted model travels."""
