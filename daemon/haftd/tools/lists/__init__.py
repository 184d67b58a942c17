"""Tools as callers see them: the `toolset` of one caller, the `tool_list` with schemas, the
`verb_tools` for models, and a `full_description` with the `access_text`."""
