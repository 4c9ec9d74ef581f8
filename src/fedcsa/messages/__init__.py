"""What may leave a site: messages, their bytes, the policy that lets them out, the ledger."""
