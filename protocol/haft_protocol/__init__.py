"""Messages and codecs of haft's wire: no I/O, no clock, no event loop, no logging.

The table of all methods is `methods`, over their types: `params` of all, then `handles` `tools` `sessions`
`pushes` `inquiries` `approvals` `reports` `trust`.
Parts of those: `states` `questions` `inputs` `outcome`, `errors` and their `validation_messages`.
Bytes: `rpc` in and `encoding` out, `value_counter` and `nesting` before decoding, `framing`; `json_text`
is JSON inside a text.
The rest: `discover`, `markdown` `model_text`, `paths`; `mcp`, the envelope of another protocol.
"""
