package rewrite

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// TestAffine: the first element and the step of each axis, of everything that is followed, and what is not.
func TestAffine(t *testing.T) {
	const none = "none"
	for text, want := range map[string]string{
		`%9 = neg(%1)`:                                              "-3 [-2]",
		`%9 = abs(%1)`:                                              none,
		`%9 = reshape(%1) {shape=[1,n,1]}`:                          "3 [0 2 0]",
		`%9 = reshape(%2) {shape=[3*n]}`:                            none,
		`%9 = reshape(%0) {shape=[n,3,1]}`:                          none,
		`%9 = expand(%1) {shape=[3,n]}`:                             "3 [0 2]",
		`%9 = expand(%3) {shape=[n,n]}`:                             "4 [0 0]",
		`%9 = transpose(%2) {perm=[1,0]}`:                           "3 [0 2]",
		`%9 = slice(%1) {starts=[5], sizes=[2], steps=[3]}`:         "13 [6]",
		`%9: i32[n] = cast(%1) {to=i32}`:                            "3 [2]",
		`%9: f32[n] = cast(%1) {to=f32}`:                            none,
		`%9 = add(%1, %2)`:                                          "6 [2 2]",
		`%9 = add(%1, %6)`:                                          none,
		`%9 = sub(%6, %1)`:                                          none,
		`%9 = add(%1, %4)`:                                          "n+3 [2]",
		`%9 = sub(%3, %1)`:                                          "1 [-2]",
		`%9 = sub(%1, %1)`:                                          "0 [0]",
		`%9 = mul(%1, %3)`:                                          "12 [8]",
		`%9 = mul(%4, %1)`:                                          "3*n [2*n]",
		`%9 = mul(%1, %1)`:                                          none,
		`%9 = add(%0, %1)`:                                          none,
		`%9 = add(%1, %0)`:                                          none,
		`%9 = max(%1, %3)`:                                          none,
		`const %9: i64[2,3] = [7, 5, 3, 17, 15, 13]`:                "7 [10 -2]",
		`const %9: i64[1,2] = [7, 5]`:                               "7 [0 -2]",
		`const %9: i64[2,2] = [0, 1, 2, 4]`:                         none,
		`const %9: i64[0] = []`:                                     none,
		`const %9: f32[2] = [0, 1]`:                                 none,
		`%9 = range() {start=-128, step=1, len=256, dtype=i8}`:      "-128 [1]",
		`%9 = range() {start=-128, step=1, len=257, dtype=i8}`:      none,
		`%9 = range() {start=-129, step=1, len=2, dtype=i8}`:        none,
		`%9 = range() {start=255, step=-1, len=256, dtype=u8}`:      "255 [-1]",
		`%9 = range() {start=255, step=-1, len=257, dtype=u8}`:      none,
		`%9 = range() {start=1, step=1, len=256, dtype=u8}`:         none,
		`%9 = range() {start=0, step=1, len=2147483648, dtype=i32}`: "0 [1]",
		`%9 = range() {start=1, step=1, len=2147483648, dtype=i32}`: none,
		`%9 = range() {start=0, step=127, len=n, dtype=i32}`:        "0 [127]",
		`%9 = range() {start=0, step=129, len=n, dtype=i32}`:        none,
		`%9 = range() {start=0, step=255, len=n, dtype=u32}`:        "0 [255]",
		`%9 = range() {start=-1, step=1, len=n, dtype=u64}`:         none,
		`%9 = range() {start=0, step=n-5, len=n, dtype=i64}`:        "0 [n-5]",
		`%9 = range() {start=0, step=n-5, len=n, dtype=i32}`:        none,
	} {
		g := parse(t, `graph "" (%0: i64[n]) { %1 = range() {start=3, step=2, len=n, dtype=i64} %2 = reshape(%1) {shape=[n,1]}
			const %3: i64[1] = [4] %4 = dims() {dims=[n], dtype=i64} %6 = range() {start=0, step=1, len=m, dtype=i64} `+text+` return %9 }`)
		got := none
		if a, ok := affineOf(g.Outputs[0]); ok {
			got = fmt.Sprint(a.off, a.at)
		}
		require.Equal(t, want, got, text)
	}
}

// TestFollowsNoFurther than its fuel: a sum of sums of one value.
func TestFollowsNoFurther(t *testing.T) {
	g := ir.NewGraph("")
	v := g.NewConst("", tensor.FromSlice([]int64{1, 2}))
	for range maxChase {
		_, ok := affineOf(v)
		require.Equal(t, len(g.Nodes) < 6, ok)
		out, err := g.Append(ir.Binary{Fn: ir.Add}, []*ir.Value{v, v})
		require.NoError(t, err)
		v = out[0]
	}
}
