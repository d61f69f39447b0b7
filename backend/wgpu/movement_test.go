package wgpu

import (
	"fmt"
	"testing"
)

// narrowConcats concatenate elements narrower than a word, whose pieces share words.
var narrowConcats = map[string]string{
	"rows":    `(%0 "x": f16[s,3], %1 "z": f16[2,3]) { %8 = neg(%0) %2 = concat(%0, %1, %8) {axis=0} return %2 as "a", %8 as "c" }`,
	"columns": `(%0 "x": f16[3,s], %1 "z": f16[3,5]) { %8 = neg(%1) %2 = concat(%8, %0, %1) {axis=1} return %2 as "a", %8 as "c" }`,
	"past": `(%0 "x": bf16[2,2,s,3], %1 "z": bf16[2,1,2,3]) { %2 = transpose(%1) {perm=[0,2,1,3]} %3 = concat(%0, %2) {axis=2}
		return %3 as "a" }`,
	"bool": `(%0 "x": f32[s,3,2], %1 "z": f32[s,1,2]) { %2: bool[s,3,2] = cast(%0) {to=bool} %3: bool[s,1,2] = cast(%1) {to=bool}
		%4 = concat(%2, %3, %2) {axis=1} return %4 as "a" }`,
	"empty": `(%0 "x": u8[2,s], %1 "z": u8[2,3]) { %2 = slice(%0) {starts=[0,0], sizes=[2,0], steps=[1,1]}
		%3 = concat(%2, %1, %2, %0) {axis=1} return %3 as "a" }`,
}

func TestConcatNarrow(t *testing.T) {
	d := open(t, 0)
	for name, text := range narrowConcats {
		for _, s := range []int{1, 2, 7, 33, 65} {
			check(t, d, fmt.Sprintf("%s, s=%d", name, s), text, s, true)
		}
	}
}
