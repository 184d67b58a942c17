"""Handles, output and sessions: synchronous, no event loop, no I/O but the spool's file.

Handles: `lifecycle`, `handles`, `read_position`, `registry`, `session_handles`, `sessions`,
`terminal_sizes`. Output: `spool`, `output_file`, `timeline`, `stderr_spans`, `text`, `escapes`,
`long_strings`, `terminal_filter`, `echo`, `output_tail`, `withheld`, `patterns`, `search`. Replies:
`base_state`, `views`, `termination`, `truncation`.
"""
