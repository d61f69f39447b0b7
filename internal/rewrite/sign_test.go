package rewrite

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNeverNegative: of each function that may have no number below 0, one value that has none and one that may.
func TestNeverNegative(t *testing.T) {
	for text, want := range map[string]bool{
		`%9 = softmax(%0) {axis=1}`:             true,
		`%9 = softmax(%0) {axis=1, log=true}`:   false,
		`%9 = exp(%0)`:                          true,
		`%9 = relu(%0)`:                         true,
		`%9 = sigmoid(%0)`:                      true,
		`%9 = abs(%0)`:                          true,
		`%9 = sqrt(%0)`:                         true,
		`%9 = neg(%1)`:                          false,
		`%9 = reshape(%1) {shape=[6]}`:          true,
		`%9 = reshape(%0) {shape=[6]}`:          false,
		`%9 = transpose(%1) {perm=[1,0]}`:       true,
		`%9 = cast(%1) {to=f16}`:                true,
		`%9 = cast(%0) {to=f16}`:                false,
		`%9 = cast(%1) {to=i32}`:                false,
		`%9 = reduce_sum_square(%0) {axes=[1]}`: true,
		`%9 = reduce_l1(%0) {axes=[1]}`:         true,
		`%9 = reduce_l2(%0) {axes=[1]}`:         true,
		`%9 = reduce_sum(%1) {axes=[1]}`:        true,
		`%9 = reduce_sum(%0) {axes=[1]}`:        false,
		`%9 = reduce_mean(%1) {axes=[1]}`:       true,
		`%9 = reduce_min(%1) {axes=[1]}`:        true,
		`%9 = reduce_prod(%1) {axes=[1]}`:       true,
		`%9 = reduce_prod(%0) {axes=[1]}`:       false,
		`%9 = reduce_log_sum(%1) {axes=[1]}`:    false,
		`%9 = mul(%0, %0)`:                      true,
		`%9 = mul(%1, %2)`:                      true,
		`%9 = mul(%1, %0)`:                      false,
		`%9 = mul(%0, %1)`:                      false,
		`%9 = pow(%0, %2)`:                      true,
		`%9 = pow(%0, %3)`:                      false,
		`%9 = add(%1, %2)`:                      true,
		`%9 = add(%1, %0)`:                      false,
		`%9 = add(%1, %4)`:                      false,
		`%9 = add(%1, %5)`:                      false,
		`%8 = erf(%0) %9 = add(%6, %8)`:         true,
		`%8 = tanh(%0) %9 = add(%8, %6)`:        true,
		`%8 = erf(%0) %9 = add(%3, %8)`:         true,
		`%8 = erf(%0) %9 = add(%7, %8)`:         false,
		`%8 = sin(%0) %9 = add(%6, %8)`:         false,
	} {
		g := parse(t, `graph "" (%0: f32[2,3]) { %1 = exp(%0) const %2: f32[] = [2] const %3: f32[] = [3] const %4: f32[2,1] = [0,-1]
			const %5: f32[] = [nan] const %6: f32[] = [1] const %7: f32[] = [0.5] `+text+` return %9 }`)
		require.Equal(t, want, neverNegative(g.Outputs[0]), text)
	}
}
