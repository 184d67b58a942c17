"""Commands of `haft`, a module each (`COMMANDS` says which): `EPILOG`, `configure` the parser, `run`.

Optional: `USAGE`, `parse` for words after `--`, `explain_unexpected`, the message about unexpected words.
"""
