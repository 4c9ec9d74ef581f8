"""The drawings of the report and of a notebook: one file a chart, plain values in."""
