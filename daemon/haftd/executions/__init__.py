"""Executions of tools, from call to end: `starter`, `call_factory` (calls with their resources),
`supervisor` (a task per handle), `execution`, `pipe` and `review`; `descriptions` of tools by their
programs, which `helpers` run."""
