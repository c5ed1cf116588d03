"""The routes about the knowledge of programs' sessions."""
