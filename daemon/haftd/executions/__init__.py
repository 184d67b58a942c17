"""One execution of a tool, from the call to its end.

`starter` turns a spawn into a supervised handle; `calls` makes the launch specification and cleans
up; `execution` is the runtime context and the control of a tool, with the `silence` of a program
whose input state is unknown; `pipe` connects its output to another handle's input; `supervisor`
runs one task for each handle; `review` withholds a result until a reviewer decides. `descriptions`
asks programs to describe their tools, by `helpers`.
"""
