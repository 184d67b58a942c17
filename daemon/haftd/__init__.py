"""haftd: the per-user daemon that holds running tools."""
