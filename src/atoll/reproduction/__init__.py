"""Papers' tables and figures: recipes, the studies behind their cells, and kept results."""
