"""What a study leaves: run folders, databases, leases, and stores by URL."""
