"""Programs behind the Makefile's targets. Nothing that ships imports them."""
