package wgpu

// helperFunctions holds the functions that WGSL lacks or has not well enough. Whether a float is NaN is read off its bits:
// drivers take x != x for false.
var helperFunctions = map[string]helper{
	"is_nan": {nil, "fn is_nan(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u; }\n"},
	"bf16_": {[]string{"is_nan"}, "fn bf16_(x: f32) -> u32 { let u = bitcast<u32>(x); return select((u + 0x7fffu + ((u >> 16u) & 1u)) " +
		">> 16u, 0x7fc0u, is_nan(x)); }\n"},
	// The nearest float16, as float32. Drivers leave out unpack2x16float of pack2x16float, and quantizeToF16 may round to zero.
	"f16_": {[]string{"is_nan"}, `fn f16_(x: f32) -> f32 {
	if (abs(x) < 0.00006103515625) { return round(x * 16777216.0) / 16777216.0; }
	let u = bitcast<u32>(x);
	let near = bitcast<f32>((u + 0xfffu + ((u >> 13u) & 1u)) & 0xffffe000u);
	return select(select(near, bitcast<f32>((u & 0x80000000u) | 0x7f800000u), abs(near) > 65504.0), x, is_nan(x));
}
`},
	"is_inf": {nil, "fn is_inf(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) == 0x7f800000u; }\n"},
	// Max and min pass a NaN on, as ONNX's do.
	"max_": {[]string{"is_nan"}, "fn max_(x: f32, y: f32) -> f32 { return select(select(max(x, y), y, is_nan(y)), x, is_nan(x)); }\n"},
	"min_": {[]string{"is_nan"}, "fn min_(x: f32, y: f32) -> f32 { return select(select(min(x, y), y, is_nan(y)), x, is_nan(x)); }\n"},
	"allMax_": {[]string{"is_nan"}, "fn allMax_(x: f32) -> f32 { return bitcast<f32>(select(bitcast<u32>(subgroupMax(x)), 0x7fc00000u, " +
		"subgroupAny(is_nan(x)))); }\n"},
	"allMin_": {[]string{"is_nan"}, "fn allMin_(x: f32) -> f32 { return bitcast<f32>(select(bitcast<u32>(subgroupMin(x)), 0x7fc00000u, " +
		"subgroupAny(is_nan(x)))); }\n"},
	// The Taylor series near 0, where the other form cancels; elsewhere Abramowitz and Stegun 7.1.26, within 1.5e-7.
	"erf_": {nil, `fn erf_(x: f32) -> f32 {
	let a = abs(x);
	if (a < 1.0) {
		let s = x * x;
		return x * (1.1283791671 + s * (-0.3761263890 + s * (0.1128379167 + s * (-0.0268661706 + s * (0.0052239776 + s * (-0.0008548327
			+ s * (0.0001205533 + s * (-0.0000149257 + s * (0.0000016462 + s * -0.0000001637)))))))));
	}
	let t = 1.0 / (1.0 + 0.3275911 * a);
	let y = 1.0 - t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429)))) * exp(-min(a * a, ` +
		`80.0));
	return select(y, -y, x < 0.0);
}
`},
	// Beyond 10, tanh is ±1 in float32; drivers overflow there.
	"tanh_":    {nil, "fn tanh_(x: f32) -> f32 { return tanh(clamp(x, -10.0, 10.0)); }\n"},
	"sigmoid_": {nil, "fn sigmoid_(x: f32) -> f32 { return 1.0 / (1.0 + exp(clamp(-x, -88.0, 88.0))); }\n"},
	"relu_":    {[]string{"is_nan"}, "fn relu_(x: f32) -> f32 { return select(max(x, 0.0), x, is_nan(x)); }\n"},
	// Below -1000 the factor on the right is 0, which −∞ times is no number.
	"gelu_": {[]string{"erf_"}, "fn gelu_(x: f32) -> f32 { return 0.5 * select(x, -1000.0, x < -1000.0) * (1.0 + erf_(x * " +
		"0.70710678118)); }\n"},
	"geluTanh_": {[]string{"tanh_"}, "fn geluTanh_(v: f32) -> f32 { let x = select(v, -1000.0, v < -1000.0); return 0.5 * x * (1.0 + " +
		"tanh_(0.7978845608 * (x + 0.044715 * x * x * x))); }\n"},
	"softplus_": {nil, "fn softplus_(x: f32) -> f32 { return max(x, 0.0) + log(1.0 + exp(-abs(x))); }\n"},
	// The series where the difference would cancel.
	"expm1_": {nil, `fn expm1_(x: f32) -> f32 {
	if (abs(x) < 0.3) { return x * (1.0 + x * (0.5 + x * (0.1666666667 + x * (0.0416666667 + x * (0.0083333333 + x * 0.0013888889))))); }
	return exp(x) - 1.0;
}
`},
	// The quotient as float32 has it: drivers divide within a few units of the last place. What is left of x is exact by
	// Dekker's splitting (Numerische Mathematik 18, 1971), since not every driver's fma is one rounding.
	"div_": {nil, `fn div_(x: f32, y: f32) -> f32 {
	let q = x / y;
	if (!(abs(q) < 1e20 && abs(x) > 1e-20 && abs(y) < 3e38)) { return q; }
	let a = bitcast<f32>(bitcast<u32>(q) & 0xfffff000u); let b = q - a;
	let c = bitcast<f32>(bitcast<u32>(y) & 0xfffff000u); let d = y - c;
	return q + (((x - a * c) - a * d) - b * c - b * d) / y;
}
`},
	"code_": {[]string{"is_nan"}, "fn code_(x: f32, zero: f32, low: f32, high: f32) -> i32 { let r = round(x) + zero; return " +
		"i32(select(clamp(r, low, high), low, is_nan(r))); }\n"},
	// Position i of an axis of n elements that is mirrored at both ends.
	"mirror_": {[]string{"mod_"}, "fn mirror_(i: i32, n: i32) -> i32 { let p = mod_(i, max(2 * (n - 1), 1)); return min(p, 2 * (n - 1) " +
		"- p); }\n"},
	// The remainder that is not negative. Vulkan leaves that of a negative number open.
	"mod_": {nil, "fn mod_(a: i32, n: i32) -> i32 { let r = a - a / n * n; return select(r, r + n, r < 0); }\n"},
	// A number beyond lo or hi is mirrored at that end, again and again, until it lies between both.
	"fold_": {nil, `fn fold_(x: f32, lo: f32, hi: f32) -> f32 {
	if (lo == hi) { return lo; }
	let d = abs(x - lo) % (2.0 * (hi - lo));
	return lo + min(d, 2.0 * (hi - lo) - d);
}
`},
	// The cubic convolution kernel of Keys (1981) with a = −0.75 at a distance.
	"cubic_": {nil, `fn cubic_(x: f32) -> f32 {
	if (x <= 1.0) { return (1.25 * x - 2.25) * x * x + 1.0; }
	return select(0.0, ((-0.75 * x + 3.75) * x - 6.0) * x + 3.0, x < 2.0);
}
`},
	// A whole number of the order that floats have: NaN is the least, and the zeros are equal.
	"order_": {[]string{"is_nan"}, `fn order_(x: f32) -> i32 {
	let bits = bitcast<i32>(x);
	return select(select(bits, -(bits & 0x7fffffff), bits < 0), bitcast<i32>(0x80000000u), is_nan(x));
}
`},
	"sign_": {[]string{"is_nan"}, "fn sign_(x: f32) -> f32 { return select(sign(x), x, is_nan(x) || x == 0.0); }\n"},
	// WGSL leaves powers of negative numbers open; whole exponents of them are common.
	"pow_": {[]string{"is_nan"}, `fn pow_(x: f32, y: f32) -> f32 {
	if (y == 2.0) { return x * x; }
	if (y == 1.0) { return x; }
	if (y == 3.0) { return x * x * x; }
	if (y == 0.0) { return 1.0; }
	if (y == 0.5 && x >= 0.0) { return sqrt(x); }
	if (x > 0.0) { return pow(x, y); }
	let odd = abs(y) < 16777216.0 && (i32(trunc(y)) & 1) == 1;
	if (x == 0.0) { return select(0.0, 1.0 / select(abs(x), x, odd), y < 0.0); }
	let r = pow(-x, y);
	return select(bitcast<f32>(select(0x7fc00000u, bitcast<u32>(select(r, -r, odd)), trunc(y) == y)), x, is_nan(x));
}
`},
	// 64-bit integers are two words, the low one first.
	"neg64": {nil, "fn neg64(x: vec2<u32>) -> vec2<u32> { return vec2<u32>(~x.x + 1u, ~x.y + select(0u, 1u, x.x == 0u)); }\n"},
	"add64": {nil, "fn add64(x: vec2<u32>, y: vec2<u32>) -> vec2<u32> { let s = x.x + y.x; return vec2<u32>(s, x.y + y.y + select(0u, " +
		"1u, s < x.x)); }\n"},
	"sub64": {[]string{"add64", "neg64"}, "fn sub64(x: vec2<u32>, y: vec2<u32>) -> vec2<u32> { return add64(x, neg64(y)); }\n"},
	"mul64": {nil, `fn mul64(x: vec2<u32>, y: vec2<u32>) -> vec2<u32> {
	let a = x.x & 0xffffu; let b = x.x >> 16u; let c = y.x & 0xffffu; let d = y.x >> 16u;
	let p = a * c; let q = a * d; let r = b * c;
	let mid = (p >> 16u) + (q & 0xffffu) + (r & 0xffffu);
	return vec2<u32>((p & 0xffffu) | (mid << 16u), b * d + (q >> 16u) + (r >> 16u) + (mid >> 16u) + x.x * y.y + x.y * y.x);
}
`},
	"less64": {nil, "fn less64(x: vec2<u32>, y: vec2<u32>) -> bool { return select(bitcast<i32>(x.y) < bitcast<i32>(y.y), x.x < " +
		"y.x, x.y == y.y); }\n"},
	"negative64": {nil, "fn negative64(x: vec2<u32>) -> bool { return (x.y >> 31u) == 1u; }\n"},
	"abs64":      {[]string{"neg64", "negative64"}, "fn abs64(x: vec2<u32>) -> vec2<u32> { return select(x, neg64(x), negative64(x)); }\n"},
	"sign64": {nil, `fn sign64(x: vec2<u32>) -> vec2<u32> {
	let s = bitcast<u32>(bitcast<i32>(x.y) >> 31u);
	return vec2<u32>(select(s, 1u, s == 0u && any(x != vec2<u32>(0u, 0u))), s);
}
`},
	// Division towards zero, remainders of the sign of the dividend (rem) and of the divisor (mod); by 0 all give 0.
	"div32": {nil, `fn div32(x: i32, y: i32) -> i32 {
	if (y == 0) { return 0; }
	if (y == -1) { return -x; }
	return x / y;
}
`},
	"rem32": {[]string{"div32"}, "fn rem32(x: i32, y: i32) -> i32 { return select(x - div32(x, y) * y, 0, y == 0); }\n"},
	"mod32": {[]string{"rem32"}, "fn mod32(x: i32, y: i32) -> i32 { let r = rem32(x, y); return select(r, r + y, r != 0 && (r < 0) != " +
		"(y < 0)); }\n"},
	// Bit by bit where the words above are taken.
	"div64": {[]string{"neg64", "abs64", "negative64"}, `fn div64(x: vec2<u32>, y: vec2<u32>) -> vec2<u32> {
	let a = abs64(x); let b = abs64(y);
	var q = vec2<u32>(0u, 0u);
	if (all(b == vec2<u32>(0u, 0u))) { return q; }
	if (a.y == 0u && b.y == 0u) {
		q.x = a.x / b.x;
	} else {
		var r = vec2<u32>(0u, 0u);
		for (var i = 0u; i < 64u; i++) {
			let bit = select(a.x >> (31u - (i & 31u)), a.y >> (31u - (i & 31u)), i < 32u) & 1u;
			r = vec2<u32>((r.x << 1u) | bit, (r.y << 1u) | (r.x >> 31u));
			q = vec2<u32>(q.x << 1u, (q.y << 1u) | (q.x >> 31u));
			if (r.y > b.y || r.y == b.y && r.x >= b.x) {
				r = vec2<u32>(r.x - b.x, r.y - b.y - select(0u, 1u, r.x < b.x));
				q.x |= 1u;
			}
		}
	}
	return select(q, neg64(q), negative64(x) != negative64(y));
}
`},
	"rem64": {[]string{"div64", "mul64", "sub64"}, `fn rem64(x: vec2<u32>, y: vec2<u32>) -> vec2<u32> {
	return select(sub64(x, mul64(div64(x, y), y)), vec2<u32>(0u, 0u), all(y == vec2<u32>(0u, 0u)));
}
`},
	"mod64": {[]string{"rem64", "add64", "negative64"}, `fn mod64(x: vec2<u32>, y: vec2<u32>) -> vec2<u32> {
	let r = rem64(x, y);
	return select(r, add64(r, y), any(r != vec2<u32>(0u, 0u)) && negative64(r) != negative64(y));
}
`},
	"wide64": {nil, "fn wide64(x: i32) -> vec2<u32> { return vec2<u32>(bitcast<u32>(x), bitcast<u32>(x >> 31u)); }\n"},
	"float64": {[]string{"neg64"}, `fn float64(x: vec2<u32>) -> f32 {
	let lo = bitcast<i32>(x.x);
	if (bitcast<i32>(x.y) == (lo >> 31u)) { return f32(lo); }
	let negative = (x.y >> 31u) == 1u;
	let m = select(x, neg64(x), negative);
	let y = f32(m.y) * 4294967296.0 + f32(m.x);
	return select(y, -y, negative);
}
`},
	"trunc64": {[]string{"neg64", "is_nan"}, `fn trunc64(x: f32) -> vec2<u32> {
	if (is_nan(x)) { return vec2<u32>(0u, 0u); }
	let m = trunc(abs(x));
	if (m >= 9223372036854775808.0) { return select(vec2<u32>(0xffffffffu, 0x7fffffffu), vec2<u32>(0u, 0x80000000u), x < 0.0); }
	let hi = u32(m / 4294967296.0);
	let r = vec2<u32>(u32(m - f32(hi) * 4294967296.0), hi);
	return select(r, neg64(r), x < 0.0);
}
`},
	"trunc32": {[]string{"is_nan"}, `fn trunc32(x: f32) -> i32 {
	if (is_nan(x)) { return 0; }
	if (x >= 2147483648.0) { return 2147483647; }
	if (x <= -2147483648.0) { return bitcast<i32>(0x80000000u); }
	return i32(x);
}
`},
}
