"""Host calls: files, requests and programs that a mediated process asks the daemon for.

`calls` has the table of methods, `messages` their JSON-RPC; `decisions` apply the rules of access,
`addresses` are resolved; `files`, `search` and `http` do the work; `redaction` removes variables'
values from the replies of HTTP requests and programs, and from errors.
"""
