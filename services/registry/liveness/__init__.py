"""Knowledge about connections that ends with a term of leadership. Pure."""
