"""The pure middle: who is what, what was said, who is owed what. No I/O, no event loop.

What happens to a use: `lifecycle`, a table; `handles`, and how one reads: `views` `outcomes` `echo` `tail`.
What was said: `spool`, of it a file with a name (`saved`, by `saving`), `withheld` until a person has
seen it, `text` without its `escapes`; when each byte was appended: `timeline`.
Who is what: `registry` with a `shelf` a session, `batch` and its `portions`, `sessions`.
Turns: `turns`, and the `lastlines` that are shown at the end of one.
What is told: `notices`, who wants which (`noticing`), and what was found for them (`matches`).
Looking for something: `patterns` in what comes, `search` in what is there, `scan` for notices.
"""
