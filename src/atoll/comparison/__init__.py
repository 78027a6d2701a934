"""Methods over seeds, as one directory: is joining worth it, and for whom?"""
