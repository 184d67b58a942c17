"""Configuration of the daemon: `command_line`, `options` (also from the environment), and the
files' `settings`, with `inquiry_settings`, `mcp_settings` and readers of single `values`."""
