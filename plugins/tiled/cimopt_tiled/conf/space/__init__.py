"""Config choices of the group space."""
