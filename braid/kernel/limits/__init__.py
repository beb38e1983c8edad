"""Every bound and timeout with its reason; each file has those of one part of Braid."""
