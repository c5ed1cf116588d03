"""Knowledge of principals' sessions, as values: memories and skills."""
