package planner

// The budget of the auto mode if Options.Budget sets none: an amount per block, and a smaller total for small problems. Plans are made
// while a user waits for a new shape.
const (
	autoBudgetPerBlock = 20_000
	autoBudget         = 20_000_000
)

// placeAuto tries the heuristics, then a short search; a long one if a capacity must be met.
func placeAuto(sp *space, o *Options) {
	budget := autoBudgetPerBlock * int64(len(sp.blocks))
	if len(sp.blocks) <= wholeBlocks {
		budget = min(budget, autoBudget)
	}
	if o.Capacity > 0 {
		budget = max(budget, optimalBudget)
	}
	sp.search(o, min(budget, optimalBudget))
}
