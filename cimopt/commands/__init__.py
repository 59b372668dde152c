"""The verbs behind `cimopt`: thin, each in its own file, imported only when called."""
