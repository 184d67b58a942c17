"""haftd: the per-user daemon that holds running tools."""

__version__ = "0.1.0"
