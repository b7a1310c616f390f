"""Types that every other package uses: ids, errors, and the ports to the outside."""
