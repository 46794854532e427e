"""Questions with answers into claims, by rule: true ones with the answer, false ones with another."""
