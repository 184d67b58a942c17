"""Executions of tools, from call to end: `starter`, `calls` (launch specifications), `supervisor`
(a task per handle), `execution`, `pipe` and `review`; `descriptions` of tools by their programs,
which `helpers` run."""
