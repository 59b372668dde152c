"""Configuration: typed settings, composition, and every room built from them."""
