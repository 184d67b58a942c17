"""One file a method; each holds what the method decides."""
