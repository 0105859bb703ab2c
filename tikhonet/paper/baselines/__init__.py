"""Methods that the library is compared with: six SGD solvers (Sec. 3.3.1), pruning, ADMM, and classical hashes."""
