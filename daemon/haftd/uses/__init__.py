"""One use of a tool, from the call to its end.

`starting` from a spawn to a use that is held; `calls` the call that a runtime gets, with what is made for
it and unmade; `use` what its runtime reports and what is done to it, with the `silence` of a program that
nobody can look into; `supervisor` one task a handle;
`review` its result, withheld until a reviewer has decided;
`watching` notices of what it prints; `describing` what tools are, asked of their own programs, and
`errands`, how those are run for that.
"""
