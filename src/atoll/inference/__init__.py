"""Using what a run has learned: scores, embeddings, modules that need no Atoll."""
