"""From a definition to a tool that can run."""
