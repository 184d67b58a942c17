"""The commands of `haft`, a module each: `EPILOG`, `configure` the parser, `run`.

Rules: optional are `USAGE`, `parse` for words behind `--`, and `beyond`, the message about unexpected words.
Shared code stands in `cli`.
"""
