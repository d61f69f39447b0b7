package kernel

type scoresFunc func(tiles, k int, a *float32, aRow int, b *float32, c *float32)
