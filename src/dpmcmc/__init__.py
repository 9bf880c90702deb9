"""dpmcmc: Bayesian posterior sampling under differential privacy."""
