"""Other libraries' samplers under ours' interface."""
