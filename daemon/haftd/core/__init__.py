"""Handles, output and sessions, decided synchronously. No I/O but the spool's file, no event loop.

Handles: `lifecycle` (the states and their table), `handles`, their `handle_settings`, the session's `read_position`,
`registry` with `session_handles` for each session, `sessions`, `batch` admission, `turns`.
Output: `spool`, with a named file of it (`output_file`, `spool_files`); `timeline` of its bytes;
`text` without `escapes`, with the `long_strings` noted; `terminal_filter` for emulators; `echo` of typed input;
`output_tail` for subscribers, `last_lines` for a sentence; `withheld` results during a review.
Replies: `views` (a handle's state on the wire), `outcomes` (the error of an `ending`), `truncation` of a batch.
Searches: `patterns` in coming output, `search` in kept output.
"""
