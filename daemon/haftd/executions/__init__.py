"""Executions of tools, from call to end.

`starter` turns a spawn into a supervised handle; `calls` makes launch specifications; `execution`
is runtime context and control of a tool; `pipe` feeds output into another handle; `supervisor` runs
a task per handle; `review` withholds a result; `descriptions` asks programs to describe their
tools, by `helpers`.
"""
