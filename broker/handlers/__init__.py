"""One family of requests each: from a decoded request to its response, over the broker's services."""
