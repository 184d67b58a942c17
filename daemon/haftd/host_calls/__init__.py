"""Host calls: files, requests and programs that a mediated process asks the daemon for.

`messages` reads requests and writes replies, `decisions` decides by the rules of access without I/O, `addresses`
about addresses of the network; `real_rules` resolves the links of the rules' paths. `files`, `search` and `http`
do the work: files in threads, by descriptors below the root. `redaction` removes values of variables from
replies; `calls` has the table of methods.
"""
