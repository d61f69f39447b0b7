package rewrite

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFolds: what every kernel computes as Eval does, and what is small enough to be computed now.
func TestFolds(t *testing.T) {
	type of struct{ prescribed, foldable bool }
	for text, want := range map[string]of{
		`%9 = neg(%1)`:                              {true, true},
		`%9 = abs(%1)`:                              {true, true},
		`%9 = sqrt(%1)`:                             {true, true},
		`%9 = reciprocal(%1)`:                       {true, true},
		`%9 = relu(%1)`:                             {true, true},
		`%9 = floor(%1)`:                            {true, true},
		`%9 = exp(%1)`:                              {false, true},
		`%9 = tanh(%1)`:                             {false, true},
		`%9 = is_nan(%1)`:                           {true, true},
		`%9 = add(%1, %1)`:                          {true, true},
		`%9 = pow(%1, %1)`:                          {false, true},
		`%9 = pow(%2, %2)`:                          {true, true},
		`%9 = less(%1, %1)`:                         {true, true},
		`%9 = reduce_max(%1) {axes=[0]}`:            {true, true},
		`%9 = reduce_min(%1) {axes=[0]}`:            {true, true},
		`%9 = reduce_sum(%1) {axes=[0]}`:            {false, true},
		`%9 = reduce_sum(%2) {axes=[0]}`:            {true, true},
		`%9 = softmax(%1) {axis=0}`:                 {false, true},
		`%9 = transpose(%1) {perm=[1,0]}`:           {true, true},
		`%9 = where(%5, %1, %1)`:                    {true, true},
		`%9 = matmul(%2, %2)`:                       {true, true},
		`%9 = matmul(%1, %1)`:                       {false, true},
		`%9, %8 = layernorm(%1) {axes=1, sum=true}`: {false, false}, // twice the bytes of its operand
		`%9 = add(%1, %0)`:                          {true, false},  // not a constant
		`%9 = clip(%1, _, %6)`:                      {true, true},
		`%9 = neg(%3)`:                              {true, true}, // of as many elements as may be folded
		`%9 = neg(%4)`:                              {true, false},
		`%9 = slice(%4) {starts=[0], sizes=[9], steps=[1]}`: {true, false},
		`%9 = expand(%6) {shape=[16]}`:                      {true, true}, // tiny
		`%9 = expand(%6) {shape=[17]}`:                      {true, false},
		`%9 = expand(%6) {shape=[n]}`:                       {true, false},
		`%9 = expand(%3) {shape=[2,16384]}`:                 {true, false},
		`%9: f64[6,6] = cast(%1) {to=f64}`:                  {true, false},
		`%9: f16[6,6] = cast(%1) {to=f16}`:                  {true, true},
		`%9 = range() {start=0, step=1, len=3, dtype=i64}`:  {true, false},
		`%9: f32[6,6] = x.y(%1)`:                            {true, false},
	} {
		g := parse(t, `graph "" (%0: f32[6]) { const %1: f32[6,6] = data const %2: i64[6,6] = data const %3: f32[16384] = data
			const %4: f32[16385] = data const %5: bool[6,6] = data const %6: f32[] = [1] `+text+` return %9 }`)
		n := g.Nodes[0]
		require.Equal(t, want, of{prescribed(n), foldable(&match{root: n}, n.Outputs[0])}, text)
	}
}

// TestFoldsNoFault: what is wrong with constants is the run's to report.
func TestFoldsNoFault(t *testing.T) {
	g := parse(t, `graph "" () { const %0: f32[3] = [1,2,3] const %1: i64[] = [7] %2 = gather(%0, %1) return %2 }`)
	before := g.String()
	require.Empty(t, runPass(t, "fold", g))
	require.Equal(t, before, g.String())
}
