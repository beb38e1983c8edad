"""Pure decisions about alerts: facts, conditions, error budgets, and the history of what fired."""
