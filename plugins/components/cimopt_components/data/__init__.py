"""The shipped tables; see SOURCES.md."""
