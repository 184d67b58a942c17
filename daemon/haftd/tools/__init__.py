"""From a definition to an executable call: `definitions`, `templates` of commands, `projects` with
a root's trusted definitions, `lists` for callers, `calls`. The `catalogue` has all tools by name;
the daemon's own are in `builtin/` and `toolpack/`."""
