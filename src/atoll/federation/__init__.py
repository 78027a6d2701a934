"""The federation: what a server may ask, how engines carry it, and the record of what crossed."""
