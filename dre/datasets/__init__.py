"""Public data, dialogues, human ratings, and files of a user's own."""
