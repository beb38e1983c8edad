"""Verbs that show, create and delete objects of the mesh."""
