"""Config groups this plug-in adds."""
