"""Access rights, pure: roles, the table of methods, grants, and the one decision over them."""
