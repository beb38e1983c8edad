"""The web console: `server` answers browsers, `page` is the source of what they show, `static` is made from it."""
