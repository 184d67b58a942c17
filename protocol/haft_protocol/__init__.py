"""The words and codecs of haft's wire: no I/O, no clock, no event loop, no logging.

`methods` is a table of all there are, over their types: `params`, what all take; `handles` `tools`
`sessions` `pushes` `inquiries` `approvals` `reports` `trust`.
What they are made of: `states` `questions` `inputs` `outcome`, `errors` and their `refusals`.
How it travels: `rpc` in and `encoding` out, `weighing` and `nesting` before it is decoded, `framing`;
`jsontext` is JSON inside of a text.
The rest: `discover`, `markdown` `modeltext`, `places`.
"""
