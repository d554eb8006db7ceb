"""Results as people read them: `text` for the terminal."""
