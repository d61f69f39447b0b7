package planner

// placeApart gives each block separate memory, in the order of the ids.
func placeApart(sp *space, _ *Options) {
	top := sp.behindFixed()
	for i := range sp.blocks {
		if k := &sp.blocks[i]; k.movable() {
			k.offset = sp.fit(top, k.size, k.align)
			top = k.offset + k.size
		}
	}
}
