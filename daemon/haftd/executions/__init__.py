"""One execution of a tool, from the call to its end.

`starting` turns a spawn into a supervised handle; `calls` makes the launch specification, and cleans up after it;
`execution` is what the runtime reports to and what is done to it, with the `silence` of a program that the kernel cannot
explain; `piping` leads its output into another; `supervisor` runs one task for each handle; `review` withholds a result until a reviewer has decided.
`describing` asks programs to describe their tools, and `helpers` runs such programs.
"""
