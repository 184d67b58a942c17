"""Tools of a project: the files of its `roots`, the user's `trust` in them, and the resulting
`project_tools`."""
