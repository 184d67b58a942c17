"""Host calls: files, requests and programs that a mediated process asks the daemon for.

`messages` reads requests and writes replies, `decisions` decides by the rules of access,
`addresses` resolves names and classifies what they resolve to; `files`, `search` and `http` do the
work: files in threads, by descriptors below the root. `redaction` removes variables' values from
replies; `calls` has the table of methods.
"""
