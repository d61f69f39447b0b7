package planner

func placeAuto(sp *space, o *Options)    { placeBestFit(sp, o) }
func placeOptimal(sp *space, o *Options) { placeBestFit(sp, o) }
