"""Handles, output and sessions: synchronous, no event loop, no I/O but the spool's file.

Handles: `lifecycle` (the table of states), `handles`, `read_position`, `registry`,
`session_handles`, `sessions`, `terminal_sizes`. Output: `spool`, `output_file`, `timeline`,
`stderr_spans`, `text`, `escapes`, `long_strings`, `terminal_filter`, `echo`, `output_tail`,
`withheld`. Replies: `views`, `termination`, `truncation`. Searches: `patterns` in coming, `search`
in kept output.
"""
