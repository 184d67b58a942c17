"""The processes of a handle: `process_tree` finds, signals and ends them, `reaper` reaps adopted
orphans, `survivors` holds those that could not be killed."""
