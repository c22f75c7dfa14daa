"""The ``dre`` command: options and output files, a module for each word."""
