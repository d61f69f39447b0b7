package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestQuantile(t *testing.T) {
	values := []float64{5, 1, 4, 2, 3}
	for q, want := range map[float64]float64{0: 1, 0.2: 1, 0.5: 3, 0.9: 5, 1: 5} {
		require.Equal(t, want, quantile(values, q), q)
	}
	require.Equal(t, []float64{5, 1, 4, 2, 3}, values)
}

func TestSummary(t *testing.T) {
	own := &side{worker: &worker{started: started{LoadMS: 1, RunMS: 1}}, times: []float64{1, 1, 2, 2}, rates: []float64{1, 2, 1}, peak: 10}
	ref := &side{worker: &worker{started: started{LoadMS: 6, RunMS: 2}}, times: []float64{4, 4, 4, 4}, rates: []float64{4, 4, 2}, peak: 40}
	c := newCell("1x8", 2, []*side{own, ref})
	require.Equal(t, 0.5, c.Ratio, "the median over the turns, not the ratio of the medians")
	require.Equal(t, 0.25, c.RatioLow)
	require.Equal(t, 0.5, c.RatioHigh)
	require.Equal(t, 0.25, c.StartRatio)
	require.Equal(t, 0.25, c.MemoryRatio)
	require.InDelta(t, 1000/1.5, c.Rate, 1e-9)

	r := &benchReport{Cells: []cell{{versus: &versus{Ratio: 0.5}}, {versus: &versus{Ratio: 8}}}}
	r.summarize()
	require.InDelta(t, 2, *r.Geomean, 1e-12)
	r = &benchReport{Cells: []cell{{}}}
	r.summarize()
	require.Nil(t, r.Geomean)
}
