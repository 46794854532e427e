"""How the models are trained: supervision, data, losses, and one loop for all of them."""
