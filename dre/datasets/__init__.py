"""Public data, dialogues, human ratings, and users' files."""
