package planner

// sizeBestFit is the best-fit mode: greedy by size (Pisarchyk and Lee, arXiv 2001.03288).
var sizeBestFit = greedy{"size, best fit", func(k *block, _ int64) (float64, float64) { return float64(k.need()), k.length() }, true}

// placeBestFit places large blocks first, each in the smallest gap that holds it among those that are free over its whole life.
func placeBestFit(sp *space, _ *Options) { sp.place(sizeBestFit, sp.profile()) }
