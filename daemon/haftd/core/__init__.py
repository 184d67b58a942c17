"""Handles, output and sessions: synchronous, no event loop, no I/O but the spool's file.

Handles: `lifecycle` (the table of states), `handles`, `handle_settings`, `read_position`,
`registry`, `session_handles`, `sessions`, `batch`, `turns`, `terminal_sizes`. Output: `spool`,
`spool_files`, `output_file`, `timeline`, `stderr_spans`, `text`, `escapes`, `long_strings`,
`terminal_filter`, `echo`, `output_tail`, `last_lines`, `withheld`. Replies: `views`, `termination`,
`outcomes` (errors of ends), `truncation`. Searches: `patterns` in coming, `search` in kept output.
"""
