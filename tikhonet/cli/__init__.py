"""The command line: one file per subcommand, registered in app.py; the other files are what they share."""
