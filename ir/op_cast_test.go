package ir

import (
	"math"
	"testing"

	"github.com/rlxc/rlxc/tensor"
)

func TestCast(t *testing.T) {
	to := func(d tensor.DType) Cast { return Cast{To: d} }
	runText(t, []textCase{
		{"towards zero", to(tensor.I32), ins{f32(nil, 1.9, -1.9, 0.5)}, "i32[3] 1 -1 0"},
		{"beyond int32", to(tensor.I32), ins{f32(nil, 3e9, float32(-inf), float32(nan))}, "i32[3] 2147483647 -2147483648 0"},
		{"beyond int64", to(tensor.I64), ins{of(tensor.F64, nil, 1e300, -1e300)}, "i64[2] 9223372036854775807 -9223372036854775808"},
		{"uint64", to(tensor.U64), ins{of(tensor.F64, nil, 0x1p63, 1e300, -1)},
			"u64[3] 9223372036854775808 18446744073709551615 18446744073709551615"},
		{"narrow types wrap", to(tensor.U8), ins{f32(nil, 300, -1)}, "u8[2] 44 255"},
		{"int4 wraps", to(tensor.I4), ins{f32(nil, -9, 7.9, 8)}, "i4[3] 7 7 -8"},
		{"int2", to(tensor.I2), ins{f32(nil, -3, 1, 2)}, "i2[3] 1 1 -2"},
		{"integers wrap", to(tensor.I8), ins{whole[int16](200, -129)}, "i8[2] -56 127"},
		{"from int4", to(tensor.I8), ins{of(tensor.I4, nil, -8, 7)}, "i8[2] -8 7"},
		{"to bool", to(tensor.Bool), ins{f32(nil, 0, 0.1, float32(nan))}, "bool[3] 0 1 1"},
		{"int to bool", to(tensor.Bool), ins{whole[int32](256, 0)}, "bool[2] 1 0"},
		{"from bool", to(tensor.F16), ins{whole(true, false)}, "f16[2] 1 0"},
		// 2^53 + 2^29 + 1 is just above the middle between two float32; through float64 it would be on it, and round down
		{"int64 to f32 rounds once", to(tensor.F32), ins{i64(nil, 1<<53+1<<29+1)}, "f32[1] 9.0072003e+15"},
		{"uint64 to f32", to(tensor.F32), ins{whole[uint64](math.MaxUint64)}, "f32[1] 1.8446744e+19"},
		{"f64 to f16 rounds once", to(tensor.F16), ins{of(tensor.F64, nil, 1+0x1p-11+0x1p-40)}, "f16[1] 1.0009766"},
		{"f16 overflows", to(tensor.F16), ins{f32(nil, 70000, -70000)}, "f16[2] INF -INF"},
		{"bf16 ties to even", to(tensor.BF16), ins{f32(nil, 1+0x1p-8, 1+3*0x1p-8)}, "bf16[2] 1 1.015625"},
		{"f8e4m3fn saturates", to(tensor.F8E4M3FN), ins{f32(nil, 1e6, float32(-inf), float32(nan))}, "f8e4m3fn[3] 448 -448 NaN"},
		{"f8e4m3fn wraps", Cast{To: tensor.F8E4M3FN, Wrap: true}, ins{f32(nil, 1e6, 1)}, "f8e4m3fn[2] NaN 1"},
		{"f8e5m2 wraps", Cast{To: tensor.F8E5M2, Wrap: true}, ins{f32(nil, -1e6)}, "f8e5m2[1] -INF"},
		{"f4e2m1", to(tensor.F4E2M1), ins{f32(nil, 0.25, -3.5, 9, float32(nan))}, "f4e2m1[4] 0 -4 6 -0"},
		{"f8e8m0 up", to(tensor.F8E8M0), ins{f32(nil, 0, 1.1, 2, float32(inf), float32(nan))},
			"f8e8m0[5] 5.8774718e-39 2 2 1.7014118e+38 NaN"},
		{"f8e8m0 down", Cast{To: tensor.F8E8M0, PowerOfTwo: RoundDown}, ins{f32(nil, 1.9, 2)}, "f8e8m0[2] 1 2"},
		{"f8e8m0 nearest", Cast{To: tensor.F8E8M0, PowerOfTwo: RoundNearest, Wrap: true}, ins{f32(nil, 1.4, 1.5, 0, float32(inf))},
			"f8e8m0[4] 1 2 NaN NaN"},
		{"to text", to(tensor.String), ins{f32(nil, 0.5, -1, float32(nan), float32(inf), float32(-inf), 0.296140194)},
			`str[6] "0.5" "-1" "NaN" "INF" "-INF" "0.29614019"`},
		{"integers to text", to(tensor.String), ins{whole[uint64](math.MaxUint64)}, `str[1] "18446744073709551615"`},
		{"text to f32", to(tensor.F32), ins{str(nil, "3.14", " 1e-5", "+INF", "-inf", "NaN", "1e99")},
			"f32[6] 3.1400001 9.9999997e-06 INF -INF NaN INF"},
		{"text to int", to(tensor.I64), ins{str(nil, "-9223372036854775807", "100.5", "1E3")}, "i64[3] -9223372036854775807 100 1000"},
		{"text to uint64", to(tensor.U64), ins{str(nil, "18446744073709551615")}, "u64[1] 18446744073709551615"},
		{"no number", to(tensor.I64), ins{str(nil, "Hello")}, `error: "Hello" is not a number`},
		{"complex", to(tensor.C64), ins{f32(nil, 1)}, "error: no cast from f32 to c64"},
		{"same type", to(tensor.String), ins{str(nil, "x")}, `str[1] "x"`},
	})
}
