"""The question before a run writes: its text, who may answer it, and what an answer lets happen."""
