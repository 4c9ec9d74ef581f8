"""A study as one file: what all sites agreed on before anything is computed."""

from fedcsa.study.study import Study

__all__ = ["Study"]
