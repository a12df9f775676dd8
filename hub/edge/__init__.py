"""The outside world's formats: command line, config file, stdio, HTTP."""
